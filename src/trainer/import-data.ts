/** Question files that a configuration says how to make: `data.import`, done once, when the files are absent. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { writeJsonLines } from '../base/jsonl.ts';
import type { Config } from '../config/schema.ts';
import type { Corpus } from '../env/corpus.ts';
import { type ImportReport, importQuestions, splitQuestions } from '../env/import/import-questions.ts';

/** Makes `data.train` and `data.validation` from the source where one of them is absent. The same source gives the same files. */
export async function ensureQuestions(
  { data }: Pick<Config, 'data'>,
  corpus: Corpus,
  say: (line: string) => void,
): Promise<void> {
  const { import: source, train, validation } = data;
  if (!source || (existsSync(train) && existsSync(validation))) return;
  const { queries, report } = await importQuestions(source.from, source.shape, corpus);
  const { train: taught, heldOut } = splitQuestions(queries, source.holdOut, source.seed);
  for (const [path, part] of [
    [train, taught],
    [validation, heldOut],
  ] as const) {
    await mkdir(dirname(path), { recursive: true });
    await writeJsonLines(path, part);
  }
  say(
    `${source.from}: ${importText(report)}; ${taught.length} in ${train}, ${heldOut.length} in ${validation}`,
  );
}

/** `320 read, 318 kept; 2 left out: the answer cites no article (a, b)`. */
export function importText({ read, kept, leftOut }: ImportReport): string {
  const reasons = Object.entries(leftOut).map(
    ([reason, { count, first }]) =>
      `${count} left out: ${reason} (${first.join(', ')}${count > first.length ? ', …' : ''})`,
  );
  return [`${read} read, ${kept} kept`, ...reasons].join('; ');
}
