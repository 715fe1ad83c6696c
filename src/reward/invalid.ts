import type { Episode } from '../env/episode.ts';

/**
 * 1 for an invalid termination, else 0; its weight is the paper's −5 (arXiv 2601.17692, section 4). Which
 * ends are invalid stands in `env/malr/stop-rules.ts`.
 */
export function invalid(episode: Pick<Episode, 'termination'>): number {
  return episode.termination.kind === 'invalid' ? 1 : 0;
}
