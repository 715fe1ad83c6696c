/** Against PEFT and transformers: `scripts/peft-vectors.py` wrote test/vectors/peft-variants. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { writeMergedWeights } from './merge-adapter.ts';
import { readDecoderConfig } from './model-config.ts';
import { checkAdapterFits, LORA_MODULES, loraScale, readAdapter } from './peft.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { chainBatch, maxDifference } from './test-support.ts';
import { createTrainingSession } from './training-session.ts';
import type { Adapter } from './types.ts';

const vectorsFolder = (name: string): string =>
  fileURLToPath(new URL(`../../test/vectors/${name}`, import.meta.url));
const base = vectorsFolder('qwen3-tiny');
const variants = vectorsFolder('peft-variants');
const vectors = JSON.parse(readFileSync(join(variants, 'vectors.json'), 'utf8')) as {
  ids: number[];
  variants: Record<
    string,
    { adapter: number[]; merged: Record<'float32' | 'bfloat16' | 'float16', number[]> }
  >;
};
const scratch = temporaryFolder();

/** log p(ids[i + 1] | ids[..i]) by our own graph. */
async function logprobs(folder: string, adapter: Adapter | null): Promise<Float32Array> {
  const lora = adapter?.spec ?? null;
  const session = await createTrainingSession({ folder, lora, mode: 'lora', gradients: false, threads: 1 });
  try {
    const batch = chainBatch([{ ids: vectors.ids }]);
    const scale = adapter ? loraScale(adapter.spec) : 0;
    return (await session.run(batch, adapter?.tensors ?? new Map(), scale)).rows.logprobs;
  } finally {
    await session.release();
  }
}

/** The base model with its weights stored as `dtype`, in `shards` files. */
function stored(dtype: 'F32' | 'F16' | 'BF16', shards: number): string {
  const folder = join(scratch, `base-${dtype}-${shards}`);
  mkdirSync(folder);
  for (const file of ['config.json', 'generation_config.json']) cpSync(join(base, file), join(folder, file));
  const tensors = [...readSafetensors(join(base, 'model.safetensors')).tensors];
  const options = { dtype, metadata: { format: 'pt' } };
  if (shards === 1) writeSafetensors(join(folder, 'model.safetensors'), new Map(tensors), options);
  else {
    const names = Array.from({ length: shards }, (_, i) => `model-0000${i + 1}-of-0000${shards}.safetensors`);
    names.forEach((name, s) => {
      const part = new Map(tensors.filter((_, i) => i % shards === s));
      writeSafetensors(join(folder, name), part, options);
    });
    const weight_map = Object.fromEntries(tensors.map(([name], i) => [name, names[i % shards]]));
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map }));
  }
  return folder;
}

async function merge(from: string, adapter: Adapter): Promise<string> {
  const target = mkdtempSync(join(scratch, 'merged-'));
  for (const file of ['config.json', 'generation_config.json']) cpSync(join(base, file), join(target, file));
  await writeMergedWeights(from, adapter, target);
  return target;
}

describe('adapters as PEFT saves them', () => {
  const shapes: Record<string, [r: number, scale: number, targets: string[]]> = {
    'rslora-regex': [3, 5 / Math.sqrt(3), ['q_proj', 'v_proj']],
    'all-linear-f16': [2, 3.5, [...LORA_MODULES]],
    'paths-bf16': [4, 1, ['o_proj', 'down_proj']],
    'gaussian-dropout': [1, 2.5, ['gate_proj', 'up_proj', 'k_proj']],
  };
  test('every variant has its row here', () =>
    expect(Object.keys(shapes)).toEqual(Object.keys(vectors.variants)));

  for (const [name, [r, scale, targets]] of Object.entries(shapes))
    test(`${name}: the same log-probabilities as PEFT's`, async () => {
      const adapter = readAdapter(join(variants, name));
      checkAdapterFits(adapter, readDecoderConfig(base));
      expect(adapter.spec.r).toBe(r);
      expect(loraScale(adapter.spec)).toBeCloseTo(scale, 12);
      expect([...adapter.spec.targets].sort()).toEqual([...targets].sort());
      expect(maxDifference(await logprobs(base, adapter), vectors.variants[name]!.adapter)).toBeLessThan(
        2e-5,
      );
    });
});

describe('merging', () => {
  // Against the adapter: what storing the merged weights in half precision costs.
  for (const [dtype, key, shards, rounding] of [
    ['F32', 'float32', 1, 2e-5],
    ['BF16', 'bfloat16', 3, 0.05],
    ['F16', 'float16', 2, 0.006],
  ] as const)
    test(`${dtype}, ${shards} files: the merged model answers as PEFT's merged one and as the adapter`, async () => {
      const from = stored(dtype, shards);
      for (const [name, { merged }] of Object.entries(vectors.variants)) {
        const adapter = readAdapter(join(variants, name));
        const folder = await merge(from, adapter);
        if (shards > 1)
          cpSync(join(from, 'model.safetensors.index.json'), join(folder, 'model.safetensors.index.json'));
        const ours = await logprobs(folder, null);
        expect(maxDifference(ours, merged[key]), name).toBeLessThan(1e-4);
        expect(maxDifference(ours, await logprobs(from, adapter)), name).toBeLessThan(rounding);
      }
    });
});
