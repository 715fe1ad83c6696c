/** `lexpo import`: question and precedent sets of other shapes as files of ours. */
import { existsSync } from 'node:fs';
import { UserError } from '../base/errors.ts';
import { writeJsonLines, writeJsonLinesFiles } from '../base/jsonl.ts';
import { loadCorpus } from '../env/corpus.ts';
import { importPrecedents, PRECEDENT_SHAPES, type PrecedentShape } from '../env/import/import-precedents.ts';
import {
  importQuestions,
  QUESTION_SHAPES,
  type QuestionShape,
  splitQuestions,
} from '../env/import/import-questions.ts';
import { importText } from '../env/import/import-report.ts';
import type { Query } from '../env/types.ts';
import type { Streams } from './main.ts';

export interface ImportOptions {
  corpus: string;
  out: string;
  holdOut?: number;
  seed: number;
  force?: boolean;
  withoutGold?: boolean;
}

export const SHAPES = [...QUESTION_SHAPES, ...PRECEDENT_SHAPES];

/** Writes `out`, and with `holdOut` a second file beside it; what is left out is told. */
export async function importCommand(
  shape: string,
  source: string,
  { corpus: path, out, holdOut, seed, force = false, withoutGold = false }: ImportOptions,
  { stdout }: Streams,
): Promise<void> {
  const isOne = <T extends string>(shapes: readonly T[]): T | undefined =>
    shapes.find((one) => one === shape);
  const questions = isOne<QuestionShape>(QUESTION_SHAPES);
  const precedents = isOne<PrecedentShape>(PRECEDENT_SHAPES);
  if (!/\.jsonl(\.gz)?$/.test(out)) throw new UserError('must end in .jsonl or .jsonl.gz', out);
  const other = out.replace(/\.jsonl/, '.held-out.jsonl');
  for (const file of holdOut === undefined ? [out] : [out, other])
    if (existsSync(file) && !force)
      throw new UserError('is there already', file, 'give another --out, or --force to replace it');
  const corpus = await loadCorpus(path);
  if (precedents !== undefined) {
    if (holdOut !== undefined)
      throw new UserError(
        'is for questions',
        '--hold-out',
        'leave it out: precedents are searched, not learnt',
      );
    if (withoutGold) throw new UserError('is for questions', '--without-gold', 'leave it out');
    const { precedents: cases, report } = await importPrecedents(source, precedents, corpus);
    stdout.write(`${importText(report)}\n`);
    checkSome(cases, source);
    await writeJsonLines(out, cases);
    stdout.write(`${cases.length} precedents in ${out}\n`);
    return;
  }
  if (questions === undefined)
    throw new UserError('is no known shape', shape, `give one of ${SHAPES.join(', ')}`);
  const { queries, report } = await importQuestions(source, questions, corpus, { withoutGold });
  stdout.write(`${importText(report)}\n`);
  checkSome(queries, source);
  const { train, heldOut } = splitQuestions(queries, holdOut ?? 0, seed);
  const files: [string, Query[]][] = [[out, train]];
  if (holdOut !== undefined) files.push([other, heldOut]);
  await writeJsonLinesFiles(files);
  for (const [file, rows] of files) stdout.write(`${rows.length} questions in ${file}\n`);
}

function checkSome(kept: readonly unknown[], source: string): void {
  if (kept.length === 0)
    throw new UserError('nothing of it is left', source, 'see what was left out, and check --corpus');
}
