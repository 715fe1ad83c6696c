/** Settings of one episode of the Lawyer (Legal-R1). Plain data: the YAML schema in `src/config` mirrors it. */

/** `zh` and `en` for instruct models, `zh-compact` for small models trained from scratch. */
export const LAWYER_PACKS = ['zh', 'en', 'zh-compact'] as const;
export type LawyerPack = (typeof LAWYER_PACKS)[number];

export interface LawyerConfig {
  prompts: LawyerPack;
  /** Most turns of the policy, ≥ 1; the published code allows 9. */
  maxTurns: number;
  /** Most tokens of the policy in an episode, ≥ 1: no further turn is taken once they are spent. */
  maxPolicyTokens: number;
  /** A query is cut to so many characters (code points), ≥ 1. */
  maxQueryChars: number;
  /** Characters shown of one piece of evidence, and pieces shown of one turn, ≥ 1. */
  evidenceChars: number;
  evidenceItems: number;
  /**
   * A turn that cannot be read: `correct` answers the first one of an episode with a message and lets the policy
   * try again; under `end`, and the second time, the episode is invalid.
   */
  malformed: 'correct' | 'end';
  /** Whether STOP before anything was found is a valid end; otherwise it is an invalid one. */
  allowEarlyStop: boolean;
  /** A query whose share of terms unknown to what it searches is above this is not searched, 0 … 1. */
  unknownTermLimit: number;
  /** Length of the pool of articles that the episode leaves, ≥ 1. */
  poolLimit: number;
}
