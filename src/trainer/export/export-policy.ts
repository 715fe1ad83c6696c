/** `lexpo export`: an adapter in PEFT's layout, or the base model with it merged in, with a model card. */

import { existsSync } from 'node:fs';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFolderAtomic } from '../../base/atomic-write.ts';
import { UserError } from '../../base/errors.ts';
import { version } from '../../base/version.ts';
import { writeMergedWeights } from '../../engine/merge-adapter.ts';
import { LORA_MODULES, readAdapter } from '../../engine/peft.ts';
import { peftConfigJson } from '../../engine/peft-config.ts';
import { readHeader } from '../../engine/safetensors.ts';
import type { Adapter, LoraSpec } from '../../engine/types.ts';
import { readRunInputs } from '../run-inputs.ts';
import { baseName, basePath, checkBase, isThere } from './base-model.ts';
import { type CardFacts, modelCard } from './model-card.ts';
import { checkOut, isModelFile } from './out-folder.ts';
import { readRunFacts } from './run-facts.ts';
import { type ExportSource, findSource, isPrivatePath } from './source.ts';
import { vllmProblems } from './vllm-problems.ts';

export interface ExportOptions {
  /** Folder of a run or of an adapter. */
  target: string;
  out: string;
  /** The base model with the adapter merged in, instead of the adapter. */
  merged: boolean;
  /** Of a run: `best`, `last` or an adapter's name; default: the one that it chose. */
  checkpoint?: string | undefined;
  /** Folder of the base model; default: what the run, or the adapter, says. */
  base?: string | undefined;
  /** What the export calls the base model, such as its name on the hub. */
  baseName?: string | undefined;
  /** Replace an earlier export at `out`. */
  force: boolean;
  signal: AbortSignal;
  /** Told one line at a time: notes, and the progress of a merge. */
  log: (line: string) => void;
}

const WEIGHTS = 'adapter_model.safetensors';

/**
 * Writes the export; `out` exists whole or not at all. Gives the name of the adapter that was taken.
 *
 * @throws UserError for every input that is wrong, before anything is written; `signal.reason` when it fires.
 */
export async function exportPolicy(options: ExportOptions): Promise<{ adapter: string }> {
  const { target, out, merged, force, signal, log } = options;
  const source = findSource(target, options.checkpoint);
  const path = basePath(source, options.base);
  const base = path !== null && isThere(path) ? path : null;
  checkOut(out, force, [source.adapterFolder, ...(base === null ? [] : [base])]);
  const adapter = readAdapter(source.adapterFolder);
  const inputs = source.run && readRunInputs(source.run.root);
  checkGivenBase(options, path, base);
  if (base !== null) checkBase(base, adapter, source.adapterFolder, inputs);
  else
    log(
      `note: ${path === null ? 'no base model is named' : `the base model ${path} is not here`}: nothing checked that the adapter fits it`,
    );

  const called = baseName(path, options.baseName);
  if (!called.hub && !merged)
    log(`note: the base model is called ${called.name}, which others cannot find: name it by --base-name`);
  const pickedOnHeldOut = (options.checkpoint ?? source.run?.config.eval.choose) === 'best';
  const facts = cardFacts(source, adapter, { merged, base: called, pickedOnHeldOut });
  const config = peftConfigJson(facts.spec, called.name);
  const problems = vllmProblems(config, headers(source.adapterFolder));
  const [error] = problems.filter(({ kind }) => kind === 'error');
  if (error && !merged)
    throw new UserError(
      `vLLM would not serve it: ${error.message}`,
      source.adapterFolder,
      'export it --merged',
    );
  if (!merged) for (const { message } of problems) log(`note: ${message}`);

  await writeFolderAtomic(
    out,
    async (folder) => {
      if (merged) await writeMerged(base!, adapter, folder, signal, log);
      else {
        await copyFile(join(source.adapterFolder, WEIGHTS), join(folder, WEIGHTS));
        await writeFile(join(folder, 'adapter_config.json'), `${JSON.stringify(config, null, 2)}\n`);
      }
      await writeFile(join(folder, 'README.md'), modelCard(facts));
      signal.throwIfAborted();
    },
    { replace: force },
  );
  return { adapter: source.name };
}

/** A base model that was named must be there; a merge needs one. */
function checkGivenBase(options: ExportOptions, path: string | null, base: string | null): void {
  if (base !== null || (options.base === undefined && !options.merged)) return;
  const where = path ?? options.target;
  const what = path === null ? 'names no base model' : 'the base model is not there (no config.json)';
  throw new UserError(what, where, 'give its folder by --base');
}

function cardFacts(
  { name, run, adapterFolder: _ }: ExportSource,
  { spec, tensors }: Adapter,
  about: Pick<CardFacts, 'merged' | 'base' | 'pickedOnHeldOut'>,
): CardFacts {
  const targets = LORA_MODULES.filter((module) => spec.targets.includes(module));
  return {
    ...about,
    name,
    spec: { ...spec, targets } satisfies LoraSpec,
    parameters: [...tensors.values()].reduce((sum, { data }) => sum + data.length, 0),
    run: run && readRunFacts(run.root, run.config, name),
    version: version(),
  };
}

const headers = (folder: string) =>
  new Map(readHeader(join(folder, WEIGHTS)).entries.map((entry) => [entry.name, entry]));

async function writeMerged(
  base: string,
  adapter: Adapter,
  folder: string,
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<void> {
  const single = existsSync(join(base, 'model.safetensors'));
  for (const name of await readdir(base)) {
    if (!isModelFile(name) && (single || name !== 'model.safetensors.index.json')) continue;
    if (name === 'config.json' || name === 'tokenizer_config.json')
      await writeFile(join(folder, name), withoutPrivatePath(await readFile(join(base, name), 'utf8')));
    else await copyFile(join(base, name), join(folder, name));
  }
  await writeMergedWeights(base, adapter, folder, {
    signal,
    onFile: (file, index, count) => log(`merging ${file} (${index + 1} of ${count})`),
  });
}

/** A config's text; transformers may have noted there in which folder of whose machine it found the model. */
function withoutPrivatePath(text: string): string {
  const json = JSON.parse(text) as Record<string, unknown>;
  const secret = ['_name_or_path', 'name_or_path'].filter(
    (key) => typeof json[key] === 'string' && isPrivatePath(json[key]),
  );
  if (secret.length === 0) return text;
  for (const key of secret) delete json[key];
  return `${JSON.stringify(json, null, 2)}\n`;
}
