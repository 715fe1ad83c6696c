import type { Episode } from '../env/episode.ts';
import { coverage } from './coverage.ts';

/**
 * Shaping, not in the paper: the fraction of the gold articles that the pool holds and the original question
 * alone does not find, in [0, 1]. `originalIds`: what that one search keeps.
 */
export function marginal(
  episode: Pick<Episode, 'pool'>,
  gold: ReadonlySet<string>,
  originalIds: readonly string[],
): number {
  const known = new Set(originalIds);
  return coverage(
    gold,
    episode.pool.filter((id) => !known.has(id)),
  );
}
