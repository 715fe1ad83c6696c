import type { Episode } from '../env/episode.ts';

/**
 * Shaping, not in the paper: the mean over the gold articles of 1 / log2(2 + rank / 3), rank from 0 in the
 * ranked pool, 0 for an article that is not in it. In [0, 1]: 1 at rank 0, 1/2 at rank 6. Recall alone
 * leaves most groups without variance; this tells pools apart that hold the same articles.
 */
export function rank(episode: Pick<Episode, 'pool'>, gold: ReadonlySet<string>): number {
  let sum = 0;
  for (const id of gold) {
    const position = episode.pool.indexOf(id);
    if (position >= 0) sum += 1 / Math.log2(2 + position / 3);
  }
  return sum / gold.size;
}
