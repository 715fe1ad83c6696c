import type { Episode } from '../env/episode.ts';

/** Rounds used, 0 … cap; its weight is the paper's −0.05 an iteration (arXiv 2601.17692, section 4). */
export function step(episode: Pick<Episode, 'rounds'>): number {
  return episode.rounds.length;
}
