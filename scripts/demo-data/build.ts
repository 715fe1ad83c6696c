/** From the tables to the files of data/demo, as text. Pure but for reading the tables. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type EnglishPart, parseEnglish } from './english.ts';
import { composePrecedents } from './precedents.ts';
import { composeQuestions, type Question, splitQuestions } from './questions.ts';
import { type Law, parseLaw } from './table.ts';

export const HELD_OUT = 200;
export const MIN_SEEN = 3;
const PROCEDURE = 'procedure';
/**
 * The laws that questions are asked about; the others are there to be confused with. So few that minutes of
 * training pass over every lay phrase several times.
 */
export const ASKED = new Set(['labor', 'lease', 'loan', 'shopping', PROCEDURE]);

export interface StatuteRow {
  id: string;
  title: string;
  law: string;
  article: string;
  text: string;
}

/** The tables of this folder, in the order of their file names. */
export function readLaws(): Law[] {
  return readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith('.txt') && name !== 'english.txt')
    .sort()
    .map((name) => parseLaw(readFileSync(join(import.meta.dirname, name), 'utf8'), name));
}

/** 1 → 第一条, 25 → 第二十五条; up to 99. */
export function articleName(n: number): string {
  const digits = ['', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
  const tens = Math.floor(n / 10);
  return `第${tens > 1 ? digits[tens] : ''}${tens > 0 ? '十' : ''}${digits[n % 10]}条`;
}

export function statuteRows(law: Law): StatuteRow[] {
  return [...law.general, ...law.concepts.flatMap((c) => c.articles)].map((text, i) => ({
    id: `${law.key}-${String(i + 1).padStart(2, '0')}`,
    title: `${law.title}${articleName(i + 1)}`,
    law: law.title,
    article: articleName(i + 1),
    text,
  }));
}

const lines = (rows: object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const queryRows = (prefix: string, questions: { text: string; gold: string[] }[]): string =>
  lines(
    questions.map((q, i) => ({
      id: `${prefix}${String(i + 1).padStart(4, '0')}`,
      query: q.text,
      gold: q.gold,
    })),
  );

export interface DemoData {
  statutes: StatuteRow[];
  train: Question[];
  validation: Question[];
  english: EnglishPart;
  /** Path below data/demo → content. */
  files: Map<string, string>;
}

/** The whole demo data set. The same tables give the same bytes. */
export function buildDemoData(): DemoData {
  const laws = readLaws();
  const statutes = laws.flatMap(statuteRows);
  const { train, validation } = splitQuestions(
    composeQuestions(
      laws.filter(({ key }) => ASKED.has(key)),
      PROCEDURE,
    ),
    HELD_OUT,
    MIN_SEEN,
  );
  const english = parseEnglish(readFileSync(join(import.meta.dirname, 'english.txt'), 'utf8'));
  const files = new Map([
    ['statutes.jsonl', lines(statutes)],
    ['precedents.jsonl', lines(composePrecedents(laws.filter(({ key }) => ASKED.has(key))))],
    ['train.jsonl', queryRows('t', train)],
    ['validation.jsonl', queryRows('v', validation)],
    ['en/statutes.jsonl', lines(english.statutes)],
    ['en/train.jsonl', queryRows('en-t', english.train)],
    ['en/validation.jsonl', queryRows('en-v', english.validation)],
  ]);
  return { statutes, train, validation, english, files };
}
