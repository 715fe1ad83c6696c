/** Judgments to search: JSON Lines of `{id, court, fact, judgment, articles}` (JuDGE's fields), read once. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { UserError } from '../../../base/errors.ts';
import { readJsonLines } from '../../../base/jsonl.ts';
import { filledString } from '../../corpus.ts';
import { type CourtLevel, courtLevel } from './court-level.ts';
import type { Sentence } from './sentence.ts';
import { heaviestSentence, severity } from './severity.ts';

export interface Precedent {
  id: string;
  court: string | null;
  fact: string;
  judgment: string;
  /** Ids of the articles that the judgment applies. */
  articles: string[];
  /** Null: the name says none. */
  level: CourtLevel | null;
  /** The heaviest defendant's sentence and its severity (PSI, [0, 1]); null: none can be read. */
  sentence: Sentence | null;
  psi: number | null;
}

export interface PrecedentSet {
  /** In the order of the file. */
  cases: Precedent[];
  /** SHA-256 (hex) of what was read, in order; the same for a plain and a gzip file. */
  hash: string;
}

const caseSchema = z.object({
  id: filledString('the id'),
  court: z.string().nullish(),
  fact: filledString('the facts'),
  judgment: z.string(),
  articles: z.array(z.string()),
});

/**
 * Reads precedents from a `.jsonl` or `.jsonl.gz` file; further fields of a line are ignored. Throws a `UserError`
 * that names file and line for broken JSON, a missing field and a duplicate id (the first ten at once), and for a
 * missing or empty file.
 */
export async function loadPrecedents(path: string): Promise<PrecedentSet> {
  const read: z.infer<typeof caseSchema>[] = [];
  const lineOf = new Map<string, number>();
  await readJsonLines(path, caseSchema, (one, line, report) => {
    const before = lineOf.get(one.id);
    if (before !== undefined) report(`duplicate id "${one.id}", first on line ${before}`);
    lineOf.set(one.id, before ?? line);
    read.push(one);
  });
  if (read.length === 0)
    throw new UserError(
      'there are no precedents',
      path,
      'give at least one line {"id", "court", "fact", "judgment", "articles"}',
    );
  return precedentSetOf(read);
}

/** A set of judgments already in memory; the caller answers for distinct ids. */
export function precedentSetOf(judgments: readonly z.infer<typeof caseSchema>[]): PrecedentSet {
  const hash = createHash('sha256');
  const cases = judgments.map(({ id, court = null, fact, judgment, articles }): Precedent => {
    hash.update(`${JSON.stringify([id, court, fact, judgment, articles])}\n`);
    const sentence = heaviestSentence(judgment);
    return {
      id,
      court,
      fact,
      judgment,
      articles: [...new Set(articles)],
      level: courtLevel(court, judgment),
      sentence,
      psi: sentence && severity(sentence),
    };
  });
  return { cases, hash: hash.digest('hex') };
}
