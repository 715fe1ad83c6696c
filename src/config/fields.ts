/** Kinds of numbers and texts that the configuration's sections share. */
import { z } from 'zod';

export const positive = z.number().positive();
export const share = z.number().min(0).max(1);
export const beta = z.number().min(0).lt(1);
export const count = z.number().int().min(1);
export const filled = z.string().min(1);
/** Far beyond what anybody means; sums and products of these stay finite. */
export const weight = z.number().min(-1e6).max(1e6);
export const atLeastZero = z.number().min(0).max(1e6);
/** Of held-out episodes: `eval/metrics.ts`. */
export const heldOutMetric = z
  .enum(['recall', 'mrr', 'ndcg', 'answerAccuracy', 'evidenceRecall'])
  .default('recall');
export const threads = count.max(1024).default(2);
