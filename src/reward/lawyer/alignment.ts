import type { Episode } from '../../env/episode.ts';
import { likeness } from './similar-queries.ts';

/** A teacher's searches for a question, in order. */
export type Reference = readonly { kind: 'STATUTE' | 'PRECEDENT'; query: string }[];

/**
 * Likeness to the teacher's trajectory, in [0, 1]: half for the order of the sources (1 − edit distance over the
 * longer length), half for the queries (mean over the teacher's of the likest of the policy's to the same source).
 * 0 where there is no reference: then nobody of the group gains by it.
 */
export function alignment({ rounds }: Pick<Episode, 'rounds'>, reference: Reference | null): number {
  if (reference === null || reference.length === 0) return 0;
  const own = rounds.map(({ agent, queries, dropped }) => ({
    kind: agent,
    query: queries[0] ?? dropped[0]?.query ?? '',
  }));
  const longer = Math.max(own.length, reference.length);
  const order =
    1 -
    editDistance(
      own.map(({ kind }) => kind),
      reference.map(({ kind }) => kind),
    ) /
      longer;
  const queries = reference.map(({ kind, query }) =>
    Math.max(0, ...own.filter((one) => one.kind === kind).map((one) => likeness(one.query, query))),
  );
  return 0.5 * order + (0.5 * queries.reduce((a, b) => a + b, 0)) / reference.length;
}

function editDistance(a: readonly string[], b: readonly string[]): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1), row[j]! + 1, next[j - 1]! + 1));
    row = next;
  }
  return row[b.length]!;
}
