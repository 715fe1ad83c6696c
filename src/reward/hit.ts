import type { Episode } from '../env/episode.ts';

/**
 * Hit reward (LegalMALR, arXiv 2601.17692, section 4): for each round, how many gold articles this round
 * found first. A gold article is paid once, in the round that first found it; it stays paid when the limit
 * of the ranked pool later cuts it. Divided by the number of gold articles this is the coverage gained.
 */
export function hitsByRound(episode: Pick<Episode, 'rounds'>, gold: ReadonlySet<string>): number[] {
  const unpaid = new Set(gold);
  return episode.rounds.map(({ newIds }) => newIds.filter((id) => unpaid.delete(id)).length);
}

/** Coverage gained over all rounds, in [0, 1]; its weight is the paper's alpha. */
export function hit(episode: Pick<Episode, 'rounds'>, gold: ReadonlySet<string>): number {
  return hitsByRound(episode, gold).reduce((sum, hits) => sum + hits, 0) / gold.size;
}
