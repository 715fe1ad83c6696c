import type { Episode } from '../../env/episode.ts';

/**
 * How well the statute queries aim, in [0, 1]: mean over the gold articles of 1 / log2(2 + rank / 3), the rank from 0
 * being the best that any query of the episode gives the article in the whole corpus (null: none does), times the
 * brevity of the longest query: 1 up to `allowance` characters, allowance / length beyond. What a query merely shares
 * with the index pays nothing (the published code pays that), and stuffing many names into one costs more than the
 * better rank brings. It is the longest query that counts, not the mean: short ones beside it would buy the cost back.
 */
export function queryQuality(
  { rounds }: Pick<Episode, 'rounds'>,
  goldRanks: readonly (number | null)[],
  allowance: number,
): number {
  const queries = rounds.filter(({ agent }) => agent === 'STATUTE').flatMap((round) => round.queries);
  if (queries.length === 0 || goldRanks.length === 0) return 0;
  const aim = goldRanks.reduce<number>(
    (sum, rank) => sum + (rank === null ? 0 : 1 / Math.log2(2 + rank / 3)),
    0,
  );
  const longest = Math.max(...queries.map((query) => [...query].length));
  return (aim / goldRanks.length) * Math.min(1, allowance / longest);
}
