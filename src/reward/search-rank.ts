/**
 * Shaping, not in the paper: the mean over the gold articles of 1 / log2(2 + rank / 3), rank from 0 in the
 * first stage's ranking of the whole corpus, the best over the episode's searches; 0 for an article that was
 * never ranked (no search). In [0, 1]. It still tells searches apart when the gold is far below the pool,
 * where recall and the rank in the pool are flat.
 */
export function searchRank(goldRanks: readonly (number | null)[]): number {
  let sum = 0;
  for (const rank of goldRanks) if (rank !== null) sum += 1 / Math.log2(2 + rank / 3);
  return sum / goldRanks.length;
}
