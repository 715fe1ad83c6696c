/**
 * Question sets of other shapes as labelled questions: LawBench's tasks (`{instruction, question, answer}`) and
 * LexEval's (`{input, answer}`), as lines or as one array. What cannot be mapped to the corpus is left out and told,
 * with its reason.
 */
import { z } from 'zod';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import type { Corpus } from '../corpus.ts';
import { readNumeral } from '../lawyer/precedents/chinese-numerals.ts';
import { monthsOf } from '../lawyer/precedents/sentence.ts';
import { wordsOf } from '../queries.ts';
import type { ExpectedAnswer, Query } from '../types.ts';
import { articleIndex, type Citation, citationsIn } from './article-index.ts';
import { type ImportReport, leaveOut } from './import-report.ts';
import { readRows, rowId } from './read-rows.ts';

export const QUESTION_SHAPES = ['lawbench', 'lexeval'] as const;
export type QuestionShape = (typeof QUESTION_SHAPES)[number];

const lawbench = z.looseObject({
  id: rowId,
  instruction: z.string().default(''),
  question: z.string(),
  answer: z.string(),
});
const lexeval = z.looseObject({ id: rowId, input: z.string(), answer: z.string() });

interface Row {
  id: string;
  query: string;
  answer: string;
}

export interface ImportSettings {
  /** Keep what cites no article and has an answer: choices, terms, and the answer's text. It trains the Lawyer only. */
  withoutGold: boolean;
}

const NEEDS_GOLD: ImportSettings = { withoutGold: false };

/** Reads `path`, rows of the shape; ids are the file's own, or the row's number. */
export async function importQuestions(
  path: string,
  shape: QuestionShape,
  corpus: Pick<Corpus, 'articles'>,
  settings: ImportSettings = NEEDS_GOLD,
): Promise<{ queries: Query[]; report: ImportReport }> {
  const rows: Row[] = [];
  const name = (given: string | null, line: number): string => given ?? `${shape}-${line}`;
  if (shape === 'lawbench')
    await readRows(path, lawbench, (row, line) => {
      rows.push({ id: name(row.id, line), query: row.question.trim(), answer: row.answer });
    });
  else
    await readRows(path, lexeval, (row, line) => {
      rows.push({ id: name(row.id, line), query: row.input.trim(), answer: row.answer });
    });
  return mapRows(rows, corpus, settings);
}

/** The labelled questions of rows, and what was left out. */
export function mapRows(
  rows: readonly Row[],
  corpus: Pick<Corpus, 'articles'>,
  { withoutGold }: ImportSettings = NEEDS_GOLD,
): { queries: Query[]; report: ImportReport } {
  const index = articleIndex(corpus);
  const report: ImportReport = { read: rows.length, kept: 0, leftOut: {} };
  const queries: Query[] = [];
  const seen = new Set<string>();
  for (const row of rows) {
    const refuse = (reason: string): void => leaveOut(report, reason, row.id);
    const named = expectedAnswer(row.answer);
    const cited = goldCitations(row, named).map((citation) => index.find(citation));
    const gold = [...new Set(cited.filter((one) => one !== null))];
    if (row.query === '') refuse('the question is empty');
    else if (seen.has(row.id)) refuse('the id stands there twice');
    else if (cited.length === 0 && !withoutGold)
      refuse('neither the answer nor what the question names cites an article');
    else if (cited.length === 0 && row.answer.trim() === '') refuse('the answer is empty');
    else if (gold.length < cited.length) refuse('an article that it cites is not in the corpus');
    else {
      seen.add(row.id);
      const text = { kind: 'text' as const, text: row.answer.trim() };
      const answer = gold.length === 0 && named.kind === 'articles' ? text : named;
      queries.push({ id: row.id, query: row.query, gold, answer });
    }
  }
  report.kept = queries.length;
  return { queries, report };
}

/**
 * The articles to be found: those that the answer cites. A term of prison cites none, and neither do the letters of a
 * choice: there they are what the question itself names, 法条:刑法第264条 before a term (LawBench 3-5; not the text of
 * the law that follows it), and in a choice the question before its options (LexEval 1-2).
 */
function goldCitations({ query, answer }: Row, { kind }: ExpectedAnswer): Citation[] {
  const cited = citationsIn(answer);
  if (cited.length > 0 || (kind !== 'number' && kind !== 'choice')) return cited;
  const named =
    kind === 'number'
      ? [...query.matchAll(/法条[:：]([^。]*)/gu)].at(-1)?.[1]
      : query.slice(0, /A\s*[:：.．、]/u.exec(query)?.index ?? 0);
  return citationsIn(named ?? '');
}

/** What the answer can be compared by: letters of a choice, a term of prison, else the articles that it cites. */
export function expectedAnswer(answer: string): ExpectedAnswer {
  const bare = answer.replace(/^\s*(?:正确)?答案[:：]?\s*/u, '');
  const letters =
    /^\s*([A-Z](?:[、,，\s]*[A-Z])*)\s*(?:[.。．]|<eoa>|$|[，,。；]?\s*(?:法条|依据|解析))/u.exec(bare)?.[1];
  if (letters !== undefined)
    return { kind: 'choice', choices: [...new Set(letters.match(/[A-Z]/g)!)].sort() };
  const [, term] = /(?:刑期|有期徒刑)[:：为]?\s*([^\s，。;；<]{1,12}月)/u.exec(answer) ?? [];
  const months = term === undefined ? null : (monthsOf(term) ?? readNumeral(term.replace(/个?月$/u, '')));
  if (months !== null)
    return { kind: 'number', value: months, tolerance: Math.max(1, Math.round(months * 0.1)) };
  return { kind: 'articles' };
}

/**
 * Two parts, the second with `holdOut` of the questions that have gold, drawn from a seeded stream; each in the order of
 * the file. The same words are on one side only, whatever their ids: of what is held out, no question without gold
 * stays. UserError when a share above 0 leaves one side empty.
 */
export function splitQuestions(
  queries: readonly Query[],
  holdOut: number,
  seed: number,
): { train: Query[]; heldOut: Query[] } {
  const measurable = queries.filter(({ gold }) => gold.length > 0);
  const drawn = stream(seed, 'hold-out')
    .shuffle(measurable)
    .slice(0, Math.round(measurable.length * holdOut));
  const out = new Set(drawn.map(({ query }) => wordsOf(query)));
  const isOut = ({ query }: Query): boolean => out.has(wordsOf(query));
  const [train, heldOut] = [queries.filter((one) => !isOut(one)), measurable.filter(isOut)];
  if (holdOut > 0 && (train.length === 0 || heldOut.length === 0))
    throw new UserError(
      `${holdOut} of ${measurable.length} questions with gold leaves none ${train.length === 0 ? 'to train on' : 'to hold out'}`,
      'hold-out',
      'give another share, or more questions',
    );
  return { train, heldOut };
}
