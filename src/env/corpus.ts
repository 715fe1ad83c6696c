/** The statute corpus: JSON Lines of `{id, title, text, law?, effectiveFrom?, effectiveTo?}`, read once and kept in memory. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonLines } from '../base/jsonl.ts';
import type { Article } from './types.ts';

export interface Corpus {
  /** In the order of the file. */
  articles: Article[];
  byId: Map<string, Article>;
  /** SHA-256 (hex) of ids, titles, texts, laws and dates in order; the same for a plain and a gzip file. */
  hash: string;
}

/** A string with something in it; `what` names it in the message. */
export const filledString = (what: string): z.ZodString =>
  z.string().refine((text) => text.trim() !== '', { message: `${what} must not be empty` });

/** A day that the calendar has, `YYYY-MM-DD`: such texts sort by time. */
export const day = z.iso.date('a day such as 2021-01-01 is needed');

const articleSchema = z.object({
  id: filledString('the id'),
  title: z.string(),
  text: filledString('the text'),
  law: z.string().nullish(),
  effectiveFrom: day.nullish(),
  effectiveTo: day.nullish(),
});

/**
 * Reads a corpus from a `.jsonl` or `.jsonl.gz` file; further fields of a line are ignored. Throws a
 * `UserError` that names file and line for broken JSON, a missing field, an empty text or a duplicate id
 * (the first ten at once), and for a missing or empty file.
 */
export async function loadCorpus(path: string): Promise<Corpus> {
  const articles: Article[] = [];
  const lineOf = new Map<string, number>();
  await readJsonLines(path, articleSchema, (read, line, report) => {
    const { id, title, text, law, effectiveFrom: from, effectiveTo: to } = read;
    const before = lineOf.get(id);
    if (before !== undefined) report(`duplicate id "${id}", first on line ${before}`);
    lineOf.set(id, before ?? line);
    if (from && to && from > to) report(`article "${id}" ends before it begins`);
    articles.push({ id, title, text, ...(law && { law }), ...(from && { from }), ...(to && { to }) });
  });
  if (articles.length === 0) {
    throw new UserError('the corpus has no articles', path, 'give at least one line {"id", "title", "text"}');
  }
  return corpusOf(articles);
}

/** A corpus of articles already in memory; the caller answers for distinct ids. */
export function corpusOf(articles: Article[]): Corpus {
  const hash = createHash('sha256');
  for (const { id, title, text, law, from, to } of articles) {
    const dates = from || to ? [from ?? null, to ?? null] : [];
    hash.update(`${JSON.stringify([id, title, text, law ?? null, ...dates])}\n`);
  }
  return {
    articles,
    byId: new Map(articles.map((article) => [article.id, article])),
    hash: hash.digest('hex'),
  };
}
