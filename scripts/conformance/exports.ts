/**
 * `lexpo export` against PEFT and transformers, live: PEFT loads what lexpo exports, lexpo loads what PEFT
 * saves, and merged models answer as the adapter does.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stream } from '../../src/base/random.ts';
import { readDecoderConfig } from '../../src/engine/model-config.ts';
import { initAdapter, LORA_MODULES, loraScale, readAdapter, writeAdapter } from '../../src/engine/peft.ts';
import { readSafetensors, type SafetensorsDtype, writeSafetensors } from '../../src/engine/safetensors.ts';
import { chainBatch, maxDifference } from '../../src/engine/test-support.ts';
import { createTrainingSession } from '../../src/engine/training-session.ts';
import type { Adapter, LoraSpec } from '../../src/engine/types.ts';
import { exportPolicy } from '../../src/trainer/export/export-policy.ts';
import { runPython } from '../python/run-python.ts';
import type { Area, Check } from './check.ts';

const TINY = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));
const PROGRAM = fileURLToPath(new URL('exports.py', import.meta.url));
const IDS = [5, 17, 93, 2, 2, 41, 88, 60, 13, 7, 71, 30, 9, 55, 24, 80];
const EXACT = 2e-5;

const SPECS: LoraSpec[] = [
  { r: 4, alpha: 8, rslora: false, targets: [...LORA_MODULES] },
  { r: 3, alpha: 5, rslora: true, targets: ['q_proj', 'down_proj'] },
];
/** How the base model is stored, and what storing merged weights so may cost. */
const STORED: { dtype: SafetensorsDtype; shards: number; rounding: number }[] = [
  { dtype: 'F32', shards: 1, rounding: EXACT },
  { dtype: 'BF16', shards: 3, rounding: 0.1 },
  { dtype: 'F16', shards: 2, rounding: 0.02 },
];
/** Forms in which PEFT saves an adapter. */
const SAVED: Record<string, Record<string, unknown>> = {
  'a list of modules': { r: 4, lora_alpha: 8, target_modules: ['q_proj', 'v_proj'] },
  'rsLoRA, an expression': {
    r: 3,
    lora_alpha: 5,
    use_rslora: true,
    target_modules: '.*\\.layers\\.\\d+\\.mlp\\.(?:up|down)_proj',
  },
  'all-linear': { r: 2, lora_alpha: 3, target_modules: 'all-linear' },
};

/** Every check; `scratch` is an existing folder. */
export async function exportChecks(python: string, scratch: string): Promise<Area> {
  const checks = [...(await ourExports(python, scratch)), ...(await theirAdapters(python, scratch))];
  return { title: 'Adapters and merged models, against PEFT and transformers', checks };
}

async function ourExports(python: string, scratch: string): Promise<Check[]> {
  const cases = [];
  for (const { dtype, shards, rounding } of STORED) {
    const base = storeBase(join(scratch, `base-${dtype}`), dtype, shards);
    for (const [i, spec] of SPECS.entries()) {
      const folder = join(scratch, `export-${dtype}-${i}`);
      const adapter = randomAdapter(base, spec);
      await writeAdapter(join(folder, 'trained'), adapter, { baseModel: base });
      for (const merged of [false, true])
        await exportPolicy({
          target: join(folder, 'trained'),
          out: join(folder, merged ? 'merged' : 'adapter'),
          merged,
          force: false,
          signal: new AbortController().signal,
          log: () => {},
        });
      const about = `${dtype}${spec.rslora ? ', rsLoRA' : ''}`;
      cases.push({ about, base, folder, ours: await logprobs(base, adapter), rounding });
    }
  }
  const jobs = cases.map(({ base, folder }) => ({
    job: 'read',
    base,
    adapter: join(folder, 'adapter'),
    merged: join(folder, 'merged'),
    ids: IDS,
  }));
  const results = ask<{ adapter: number[]; merged: number[] }>(python, scratch, jobs);
  const checks: Check[] = [];
  for (const [i, { about, folder, ours, rounding }] of cases.entries()) {
    const { adapter, merged } = results[i]!;
    const ownMerged = await logprobs(join(folder, 'merged'), null);
    checks.push(
      {
        check: `PEFT on an exported adapter (${about})`,
        error: maxDifference(adapter, ours),
        tolerance: EXACT,
      },
      {
        check: `transformers and lexpo on the merged model (${about})`,
        error: maxDifference(merged, ownMerged),
        tolerance: EXACT,
      },
      {
        check: `transformers on the merged model, PEFT on the adapter (${about})`,
        error: maxDifference(merged, adapter),
        tolerance: rounding,
      },
    );
  }
  return checks;
}

async function theirAdapters(python: string, scratch: string): Promise<Check[]> {
  const names = Object.keys(SAVED);
  const folderOf = (i: number): string => join(scratch, `saved-${i}`);
  const jobs = names.map((name, i) => ({
    job: 'save',
    base: TINY,
    adapter: folderOf(i),
    ids: IDS,
    settings: SAVED[name],
    seed: i,
  }));
  const results = ask<{ adapter: number[] }>(python, scratch, jobs);
  const checks: Check[] = [];
  for (const [i, name] of names.entries())
    checks.push({
      check: `lexpo on an adapter that PEFT saved (${name})`,
      error: maxDifference(await logprobs(TINY, readAdapter(folderOf(i))), results[i]!.adapter),
      tolerance: EXACT,
    });
  return checks;
}

function ask<T>(python: string, scratch: string, jobs: unknown[]): T[] {
  const file = join(scratch, 'exports.json');
  writeFileSync(file, JSON.stringify(jobs));
  return JSON.parse(runPython(python, [PROGRAM, file])) as T[];
}

/** The tiny base model with its weights stored as `dtype` in `shards` files. */
function storeBase(folder: string, dtype: SafetensorsDtype, shards: number): string {
  mkdirSync(folder);
  for (const file of ['config.json', 'generation_config.json']) cpSync(join(TINY, file), join(folder, file));
  const tensors = [...readSafetensors(join(TINY, 'model.safetensors')).tensors];
  const fileOf = (i: number): string =>
    shards === 1 ? 'model.safetensors' : `model-0000${(i % shards) + 1}-of-0000${shards}.safetensors`;
  for (let s = 0; s < shards; s++)
    writeSafetensors(join(folder, fileOf(s)), new Map(tensors.filter((_, i) => fileOf(i) === fileOf(s))), {
      dtype,
      metadata: { format: 'pt' },
    });
  if (shards > 1) {
    const weight_map = Object.fromEntries(tensors.map(([name], i) => [name, fileOf(i)]));
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map }));
  }
  return folder;
}

function randomAdapter(base: string, spec: LoraSpec): Adapter {
  const random = stream(7, 'conformance', 'exports', String(spec.r));
  const adapter = initAdapter(readDecoderConfig(base), spec, random);
  for (const { data } of adapter.tensors.values()) data.set(data.map(() => 0.2 * random.normal()));
  return adapter;
}

/** log p(IDS[i + 1] | IDS[..i]) by our own graph. */
async function logprobs(folder: string, adapter: Adapter | null): Promise<Float32Array> {
  const lora = adapter?.spec ?? null;
  const session = await createTrainingSession({ folder, lora, mode: 'lora', gradients: false, threads: 1 });
  try {
    const scale = adapter ? loraScale(adapter.spec) : 0;
    const { rows } = await session.run(chainBatch([{ ids: IDS }]), adapter?.tensors ?? new Map(), scale);
    return rows.logprobs;
  } finally {
    await session.release();
  }
}
