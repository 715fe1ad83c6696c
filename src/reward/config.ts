/** Settings of the LegalMALR reward: one weight for each term of the ledger (arXiv 2601.17692, section 4). */
export interface RewardConfig {
  /** Recall over the first k of the ranked pool; null: over the whole pool. */
  recallAt: number | null;
  weights: RewardWeights;
}

/** `step` and `invalid` are penalties: at most 0. The others are at least 0. */
export interface RewardWeights {
  recall: number;
  step: number;
  /** The paper’s alpha, whose value it does not give. At 0.2 one of 23 gold articles still pays for its round. */
  hit: number;
  invalid: number;
  /** Shaping, off by default. */
  rank: number;
  /** Shaping, off by default; needs the ids that the original question alone finds. */
  marginal: number;
  /** Shaping, off by default; needs the first stage's ranks of the gold articles. */
  searchRank: number;
}
