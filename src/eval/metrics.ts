/** Ranking metrics with binary relevance: pure functions of a ranking and the gold ids of one question. */

/** What one question's episode may be judged by: its ranking down to k, or, where it ends with one, its answer. */
export const QUESTION_METRICS = ['recall', 'mrr', 'ndcg', 'answerAccuracy', 'evidenceRecall'] as const;
export type QuestionMetric = (typeof QUESTION_METRICS)[number];

/** Whether a metric is one of a ranking. */
export const isRanking = (metric: QuestionMetric): boolean =>
  metric !== 'answerAccuracy' && metric !== 'evidenceRecall';

/** Keeps the first place of an id: a pool that lists an article twice gains and loses nothing by it. */
function distinct(ranked: readonly string[]): string[] {
  return [...new Set(ranked)];
}

function goldSet(gold: readonly string[]): Set<string> {
  if (gold.length === 0) throw new Error('a question without gold articles has no metric');
  return new Set(gold);
}

function checkCutoff(k: number): void {
  if (!Number.isInteger(k) || k < 1)
    throw new Error(`a metric's cut-off must be a whole number from 1, not ${k}`);
}

/** Share of the gold articles among the first `k`, in [0, 1]. Throws without gold. */
export function recallAt(k: number, ranked: readonly string[], gold: readonly string[]): number {
  checkCutoff(k);
  const wanted = goldSet(gold);
  const found = distinct(ranked)
    .slice(0, k)
    .filter((id) => wanted.has(id));
  return found.length / wanted.size;
}

/** 1 / rank of the first gold article among the first `k`, 0 if there is none. Throws without gold. */
export function mrrAt(k: number, ranked: readonly string[], gold: readonly string[]): number {
  checkCutoff(k);
  const wanted = goldSet(gold);
  const place = distinct(ranked)
    .slice(0, k)
    .findIndex((id) => wanted.has(id));
  return place < 0 ? 0 : 1 / (place + 1);
}

/**
 * Normalised discounted cumulative gain of the first `k`, gains 0 or 1, discount 1 / log2(rank + 1), over
 * that of the best possible ranking (min(k, gold) hits first), in [0, 1]. Järvelin and Kekäläinen, 2002.
 * Throws without gold.
 */
export function ndcgAt(k: number, ranked: readonly string[], gold: readonly string[]): number {
  checkCutoff(k);
  const wanted = goldSet(gold);
  const discount = (place: number) => 1 / Math.log2(place + 2);
  let gain = 0;
  for (const [place, id] of distinct(ranked).slice(0, k).entries())
    if (wanted.has(id)) gain += discount(place);
  let best = 0;
  for (let place = 0; place < Math.min(k, wanted.size); place++) best += discount(place);
  return gain / best;
}
