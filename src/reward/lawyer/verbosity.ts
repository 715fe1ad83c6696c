import type { Episode } from '../../env/episode.ts';

/** Tokens of the policy beyond `allowance`, in allowances, at most 1: [0, 1]. */
export function verbosity({ calls }: Pick<Episode, 'calls'>, allowance: number): number {
  const tokens = calls.reduce((sum, { outputIds }) => sum + outputIds.length, 0);
  return Math.min(1, Math.max(0, tokens - allowance) / allowance);
}
