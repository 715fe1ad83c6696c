/** Question files that a configuration says how to make: `data.import`, done once, when the files are absent. */
import { existsSync } from 'node:fs';
import { writeJsonLinesFiles } from '../base/jsonl.ts';
import type { Config } from '../config/schema.ts';
import type { Corpus } from '../env/corpus.ts';
import { importQuestions, splitQuestions } from '../env/import/import-questions.ts';
import { type ImportReport, importText } from '../env/import/import-report.ts';
import type { Query } from '../env/types.ts';

export interface Imported {
  train: Query[];
  validation: Query[];
  report: ImportReport;
}

/** What an import gives where it is named and one of the two files is absent; null where there is nothing to import. */
export async function importedQuestions(
  { data }: Pick<Config, 'data'>,
  corpus: Corpus,
): Promise<Imported | null> {
  const { import: source, train, validation } = data;
  if (!source || (existsSync(train) && existsSync(validation))) return null;
  const { queries, report } = await importQuestions(source.from, source.shape, corpus, source);
  const { train: taught, heldOut } = splitQuestions(queries, source.holdOut, source.seed);
  return { train: taught, validation: heldOut, report };
}

/** Makes `data.train` and `data.validation` of it. The same source gives the same files. */
export async function ensureQuestions(
  { data }: Pick<Config, 'data'>,
  corpus: Corpus,
  say: (line: string) => void,
): Promise<void> {
  const imported = await importedQuestions({ data }, corpus);
  if (!imported) return;
  const { report, train, validation } = imported;
  await writeJsonLinesFiles([
    [data.train, train],
    [data.validation, validation],
  ]);
  say(
    `${data.import!.from}: ${importText(report)}; ${train.length} in ${data.train}, ${validation.length} in ${data.validation}`,
  );
}
