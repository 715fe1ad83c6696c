/** Labelled questions: JSON Lines of `{id, query, gold, date?, answer?, exclude?}`, checked against the corpus they are about. */
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonLines } from '../base/jsonl.ts';
import { type Corpus, day, filledString } from './corpus.ts';
import type { Query } from './types.ts';

const answerSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('articles') }),
  z.object({ kind: z.literal('choice'), choices: z.array(z.string().regex(/^[A-Z]$/)).min(1) }),
  z.object({ kind: z.literal('number'), value: z.number(), tolerance: z.number().min(0) }),
  z.object({ kind: z.literal('text'), text: filledString('the text') }),
]);

/** A labelled pair as a line of JSON; further fields are ignored. */
export const querySchema = z.object({
  id: filledString('the id'),
  query: filledString('the question'),
  gold: z.array(z.string()).min(1, 'at least one gold article id is needed'),
  date: day.optional(),
  answer: answerSchema.optional(),
  exclude: z.array(z.string()).optional(),
});

/** A question that may do without gold where its answer can be told right without it: a model then judges the evidence. */
const judgedSchema = querySchema
  .extend({ gold: z.array(z.string()).default([]) })
  .refine(({ gold, answer }) => gold.length > 0 || (answer !== undefined && answer.kind !== 'articles'), {
    path: ['gold'],
    message: 'at least one gold article id is needed, or an answer that is no articles',
  });

/** A question as it counts for "word for word": composed characters, and white space of any kind and length as one. */
export const wordsOf = (question: string): string => question.normalize('NFC').replace(/\s+/gu, ' ').trim();

/** What is wrong with gold ids: which one, and what of it. */
export function goldProblems(
  gold: readonly string[],
  { byId }: Pick<Corpus, 'byId'>,
): { id: string; what: string }[] {
  return gold.flatMap((id, i) => {
    if (!byId.has(id)) return [{ id, what: 'is not in the corpus' }];
    return gold.indexOf(id) < i ? [{ id, what: 'is listed twice' }] : [];
  });
}

/** Whether a question needs gold: `optional` for one that trains the Lawyer and has an answer of its own. */
export type GoldRule = 'required' | 'optional';

/**
 * Reads labelled questions from a `.jsonl` or `.jsonl.gz` file. Throws a `UserError` that names file and
 * line for broken JSON, a missing field, an empty question, no gold (by `rule`), a gold id that the corpus lacks or
 * that is listed twice, and a duplicate question id (the first ten at once); also for a missing or empty
 * file.
 */
export async function loadQueries(
  path: string,
  corpus: Pick<Corpus, 'byId'>,
  rule: GoldRule = 'required',
): Promise<Query[]> {
  const queries: Query[] = [];
  const lineOf = new Map<string, number>();
  await readJsonLines<Query>(
    path,
    rule === 'optional' ? judgedSchema : querySchema,
    (query, line, report) => {
      const before = lineOf.get(query.id);
      if (before !== undefined) report(`duplicate id "${query.id}", first on line ${before}`);
      lineOf.set(query.id, before ?? line);
      for (const { id, what } of goldProblems(query.gold, corpus))
        report(`gold article "${id}" of "${query.id}" ${what}`);
      queries.push(query);
    },
  );
  if (queries.length === 0) {
    throw new UserError(
      'there are no questions',
      path,
      'give at least one line {"id", "query", "gold": [id]}',
    );
  }
  return queries;
}
