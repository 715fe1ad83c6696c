import type { Episode } from '../../env/episode.ts';
import { coverage } from '../coverage.ts';

/**
 * Does what was retrieved contain what the answer rests on: the share of the gold articles that the evidence shown
 * is or applies, in [0, 1]. However often an article is found, it counts once.
 */
export function evidenceGain({ rounds }: Pick<Episode, 'rounds'>, gold: ReadonlySet<string>): number {
  const held = rounds.flatMap(({ evidence = [] }) => evidence.flatMap(({ articles }) => articles));
  return coverage(gold, [...new Set(held)]);
}
