/** For the environment's own tests. */
import type { MalrConfig } from './config.ts';

/** The paper's numbers where it gives them. */
export const malrConfig: MalrConfig = {
  prompts: 'zh-compact',
  maxRounds: 4,
  topK: 30,
  keep: 10,
  poolLimit: 20,
  diminishing: 'report',
  noGrowthRounds: 2,
  allowOriginal: true,
  allowEarlyTerminate: false,
  unknownTermLimit: 0.5,
  maxDecomposed: 4,
  maxQueryChars: 200,
  toleratedBadRewrites: 0,
};
