/** Labelled questions: JSON Lines of `{id, query, gold}`, checked against the corpus they are about. */
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonLines } from '../base/jsonl.ts';
import { type Corpus, filledString } from './corpus.ts';
import type { Query } from './types.ts';

/** A labelled pair as a line of JSON; further fields are ignored. */
export const querySchema = z.object({
  id: filledString('the id'),
  query: filledString('the question'),
  gold: z.array(z.string()).min(1, 'at least one gold article id is needed'),
});

/**
 * Reads labelled questions from a `.jsonl` or `.jsonl.gz` file. Throws a `UserError` that names file and
 * line for broken JSON, a missing field, an empty question, no gold, a gold id that the corpus lacks or
 * that is listed twice, and a duplicate question id (the first ten at once); also for a missing or empty
 * file.
 */
export async function loadQueries(path: string, corpus: Pick<Corpus, 'byId'>): Promise<Query[]> {
  const queries: Query[] = [];
  const lineOf = new Map<string, number>();
  await readJsonLines(path, querySchema, (query, line, report) => {
    const before = lineOf.get(query.id);
    if (before !== undefined) report(`duplicate id "${query.id}", first on line ${before}`);
    lineOf.set(query.id, before ?? line);
    const seen = new Set<string>();
    for (const id of query.gold) {
      if (!corpus.byId.has(id)) report(`gold article "${id}" of "${query.id}" is not in the corpus`);
      else if (seen.has(id)) report(`gold article "${id}" of "${query.id}" is listed twice`);
      seen.add(id);
    }
    queries.push(query);
  });
  if (queries.length === 0) {
    throw new UserError(
      'there are no questions',
      path,
      'give at least one line {"id", "query", "gold": [id]}',
    );
  }
  return queries;
}
