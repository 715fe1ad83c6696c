import type { Episode } from '../../env/episode.ts';

/** Share of the turns that could be read, in [0, 1]; 0 for an invalid episode and for one without turns. */
export function format({ calls, termination }: Pick<Episode, 'calls' | 'termination'>): number {
  if (termination.kind === 'invalid' || calls.length === 0) return 0;
  return calls.filter(({ action }) => action !== null).length / calls.length;
}
