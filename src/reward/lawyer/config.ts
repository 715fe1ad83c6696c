/**
 * Settings of the Lawyer's reward. The terms are those that Legal-R1 names; what it does not say (bounds, weights) is
 * ours, with its published code as a warning: there format can earn as much as accuracy, and any search pays.
 */

export interface LawyerRewardConfig {
  /** How an answer of articles is scored: F1 against the gold, or all or nothing. */
  articles: 'f1' | 'exact';
  /** Policy tokens of an episode that cost nothing, ≥ 1. */
  tokenAllowance: number;
  /** Characters of a query that cost nothing, ≥ 1. */
  queryAllowance: number;
  weights: LawyerRewardWeights;
}

/** `verbosity`, `repetition` and `invalid` are costs: at most 0. The others are at least 0. */
export interface LawyerRewardWeights {
  answerAccuracy: number;
  evidenceGain: number;
  queryQuality: number;
  alignment: number;
  format: number;
  verbosity: number;
  repetition: number;
  invalid: number;
}

/** Accuracy is worth as much as all else together that a good episode earns; imitation and format are small. */
export const LAWYER_REWARD: LawyerRewardConfig = {
  articles: 'f1',
  tokenAllowance: 512,
  queryAllowance: 48,
  weights: {
    answerAccuracy: 1,
    evidenceGain: 0.5,
    queryQuality: 0.2,
    alignment: 0.05,
    format: 0.05,
    verbosity: -0.1,
    repetition: -0.1,
    invalid: -1,
  },
};
