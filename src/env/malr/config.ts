/**
 * Settings of one LegalMALR episode (arXiv 2601.17692, section 3). Plain data: the YAML schema in
 * `src/config` mirrors it.
 */

/** The prompt packs there are: `zh` and `en` for instruct models, `zh-compact` for small models trained from scratch. */
export const PACK_NAMES = ['zh', 'en', 'zh-compact'] as const;
export type PackName = (typeof PACK_NAMES)[number];

export interface MalrConfig {
  prompts: PackName;
  /** Hard cap on rounds, ≥ 1. */
  maxRounds: number;
  /** Articles retrieved for each reformulation, ≥ 1. */
  topK: number;
  /** Articles kept of those after the rerank against the original question, 1 … topK. */
  keep: number;
  /** Length of the ranked pool that the episode returns, 1 … 20: what a listwise reranker still takes. */
  poolLimit: number;
  /** What fewer than two new articles in a round does: the planner is told, or the episode ends. */
  diminishing: 'report' | 'stop';
  /** So many rounds in a row without one new article end the episode, ≥ 1. */
  noGrowthRounds: number;
  /** Whether the planner may search the question as it stands (`original`). */
  allowOriginal: boolean;
  /** Whether `terminate` before the first search is a valid end; otherwise it is an invalid one. */
  allowEarlyTerminate: boolean;
  /** A reformulation whose share of terms unknown to the corpus is above this is dropped, 0 … 1. */
  unknownTermLimit: number;
  /** Most sub-queries of one decomposition, ≥ 1. */
  maxDecomposed: number;
  /** A query is cut to so many characters (code points), ≥ 1. */
  maxQueryChars: number;
  /**
   * So many unusable rewriter outputs cost only their round; the next one makes the episode invalid, ≥ 0.
   * One in the first round leaves the pool empty, which ends the episode by that rule.
   */
  toleratedBadRewrites: number;
}
