import type { Episode } from '../rollout/trajectory.ts';
import { coverage } from './coverage.ts';

/**
 * Hit reward (LegalMALR, arXiv 2601.17692, section 4): for each round, the fraction of the gold articles
 * that this round found first. A gold article is paid once, in the round that first found it; it stays paid
 * when the limit of the ranked pool later cuts it. The sum over rounds is in [0, 1].
 */
export function hitByRound(episode: Pick<Episode, 'rounds'>, gold: ReadonlySet<string>): number[] {
  const paid = new Set<string>();
  return episode.rounds.map(({ newIds }) => {
    const fresh = newIds.filter((id) => !paid.has(id));
    for (const id of fresh) paid.add(id);
    return coverage(gold, fresh);
  });
}
