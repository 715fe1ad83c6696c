import type { Episode } from '../../env/episode.ts';
import type { ExpectedAnswer } from '../../env/types.ts';
import type { Judgment } from './judgment.ts';

type Given = NonNullable<Episode['answer']>;

/**
 * How right the answer is, in [0, 1]; 0 without one. Articles: F1 against the gold, or 1 for exactly the gold.
 * Choices: share of those in either list that are in both. Number: 1 within the tolerance, then falling to 0 where
 * it is off by its own size. Text: what the judgment says, which is then needed.
 */
export function answerAccuracy(
  answer: Given | null | undefined,
  gold: ReadonlySet<string>,
  expected: ExpectedAnswer | undefined,
  mode: 'f1' | 'exact',
  judgment: Judgment | null,
): number {
  if (!answer) return 0;
  switch (expected?.kind) {
    case undefined:
    case 'articles':
      return articleAccuracy(answer.articles, gold, mode);
    case 'choice':
      return overlap(new Set(answer.choices), new Set(expected.choices));
    case 'number':
      return numberAccuracy(answer.number, expected.value, expected.tolerance);
    case 'text':
      if (judgment === null) throw new Error('an answer of the kind text was not judged');
      return judgment.accuracy;
  }
}

function articleAccuracy(
  articles: readonly string[],
  gold: ReadonlySet<string>,
  mode: 'f1' | 'exact',
): number {
  const named = new Set(articles);
  const right = [...named].filter((id) => gold.has(id)).length;
  if (mode === 'exact') return right === gold.size && named.size === gold.size ? 1 : 0;
  return named.size === 0 ? 0 : (2 * right) / (named.size + gold.size);
}

function overlap(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const both = [...a].filter((one) => b.has(one)).length;
  const either = a.size + b.size - both;
  return either === 0 ? 0 : both / either;
}

function numberAccuracy(given: number | null, value: number, tolerance: number): number {
  if (given === null || !Number.isFinite(given)) return 0;
  const off = Math.max(0, Math.abs(given - value) - tolerance);
  return Math.max(0, 1 - off / Math.max(1, Math.abs(value)));
}
