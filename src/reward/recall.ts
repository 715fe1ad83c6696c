import type { Episode } from '../env/episode.ts';
import { coverage } from './coverage.ts';

/**
 * Terminal reward (LegalMALR, arXiv 2601.17692, section 4): recall of the gold articles over the pool that
 * the episode leaves, in [0, 1]. `at`: only the first so many of the ranked pool; null for all of it.
 */
export function recall(episode: Pick<Episode, 'pool'>, gold: ReadonlySet<string>, at: number | null): number {
  return coverage(gold, at === null ? episode.pool : episode.pool.slice(0, at));
}
