import type { Episode } from '../../env/episode.ts';
import { coverage } from '../coverage.ts';
import type { Judgment } from './judgment.ts';

/**
 * Does what was retrieved contain what the answer rests on, in [0, 1]: the share of the gold articles that the evidence
 * shown is or applies (however often an article is found, it counts once). Without gold, what the judgment says, which
 * is then needed; nothing found supports nothing, whatever it says.
 */
export function evidenceGain(
  { rounds }: Pick<Episode, 'rounds'>,
  gold: ReadonlySet<string>,
  judgment: Judgment | null,
): number {
  const evidence = rounds.flatMap((round) => round.evidence ?? []);
  if (gold.size === 0) {
    if (judgment === null) throw new Error('the evidence of a question without gold was not judged');
    return evidence.length === 0 ? 0 : judgment.support;
  }
  const held = evidence.flatMap(({ articles }) => articles);
  return coverage(gold, [...new Set(held)]);
}
