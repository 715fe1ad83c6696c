/**
 * `inputs.json` of a run folder: what the run was trained on, by count and hash, so that an exported adapter
 * can say so and a base model that was exchanged since is noticed.
 */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { sha256OfFile } from '../base/hash.ts';
import { readJsonFile } from '../base/read-json.ts';
import type { Config } from '../config/schema.ts';
import type { Data } from './prepare.ts';

const fileSchema = z.strictObject({
  /** Name without its folder. */
  file: z.string(),
  /** SHA-256 of the file's bytes as they lie on the disk, in hex. */
  sha256: z.string(),
  /** Articles or questions. */
  count: z.number().int().min(0),
});
const inputsSchema = z.strictObject({
  corpus: fileSchema,
  train: fileSchema,
  validation: fileSchema,
  /** `weightsMark` of the base model's folder. */
  baseWeights: z.string(),
});
export type RunInputs = z.infer<typeof inputsSchema>;

const pathOf = (root: string): string => join(root, 'inputs.json');

/**
 * Writes `inputs.json` into the run folder `root`; reads the three data files again to hash them.
 * `baseWeights` is the `weightsMark` of the base model's folder.
 */
export async function writeRunInputs(
  root: string,
  { data }: Pick<Config, 'data'>,
  { corpus, train, validation }: Data,
  baseWeights: string,
): Promise<void> {
  const about = async (path: string, count: number) => ({
    file: basename(path),
    sha256: await sha256OfFile(path),
    count,
  });
  const inputs: RunInputs = {
    corpus: await about(data.corpus, corpus.articles.length),
    train: await about(data.train, train.length),
    validation: await about(data.validation, validation.length),
    baseWeights,
  };
  await writeFileAtomic(pathOf(root), `${JSON.stringify(inputs, null, 2)}\n`);
}

/** Null where the run left none; UserError for a damaged one. */
export function readRunInputs(root: string): RunInputs | null {
  const file = pathOf(root);
  if (!existsSync(file)) return null;
  return readJsonFile(file, inputsSchema, 'Remove the file: the data are then not named.');
}
