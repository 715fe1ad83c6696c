import type { Episode } from '../../env/episode.ts';
import { likeness } from './similar-queries.ts';

/** Queries this alike are the same search in other clothes. */
const SAME_FROM = 0.9;

/** How many searches repeat an earlier one of the same source, word for word or nearly: ≥ 0, at most the rounds − 1. */
export function repetition({ rounds }: Pick<Episode, 'rounds'>): number {
  const made: { agent: string; query: string }[] = [];
  let repeats = 0;
  for (const { agent, queries, dropped } of rounds) {
    const query = queries[0] ?? dropped[0]?.query ?? '';
    if (made.some((one) => one.agent === agent && likeness(one.query, query) >= SAME_FROM)) repeats++;
    made.push({ agent, query });
  }
  return repeats;
}
