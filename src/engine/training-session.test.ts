/** Against PyTorch, transformers and PEFT: `scripts/reference-vectors.py` wrote test/vectors/qwen3-tiny. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loraScale, readAdapter } from './peft.ts';
import { readSafetensors } from './safetensors.ts';
import { chainBatch, maxDifference } from './test-support.ts';
import { createTrainingSession, type TrainingSession } from './training-session.ts';
import type { Adapter, TensorMap } from './types.ts';

const folder = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));

interface Rows {
  logprobs: number[];
  entropies: number[];
}
interface Sample {
  ids: number[];
  promptLength: number;
  coef: number[];
  base: Record<string, Rows>;
  adapter: Record<string, Rows>;
}
const vectors = JSON.parse(readFileSync(`${folder}/vectors.json`, 'utf8')) as {
  entropyCoef: number;
  samples: Sample[];
  objective: Record<string, number>;
};
const expected = readSafetensors(`${folder}/expected.safetensors`).tensors;

describe('a tiny Qwen3 as transformers and PEFT compute it', () => {
  let adapter: Adapter;
  let scale: number;
  let lora: TrainingSession;
  let full: TrainingSession;
  let everything: TensorMap;

  beforeAll(async () => {
    adapter = readAdapter(`${folder}/adapter`);
    scale = loraScale(adapter.spec);
    const options = { folder, lora: adapter.spec, gradients: true, threads: 1 };
    lora = await createTrainingSession({ ...options, mode: 'lora' });
    full = await createTrainingSession({ ...options, mode: 'full' });
    const base = readSafetensors(`${folder}/model.safetensors`).tensors;
    everything = new Map([...base, ...adapter.tensors]);
  });
  afterAll(async () => {
    await lora.release();
    await full.release();
  });

  for (const temperature of [1, 0.7]) {
    const key = `temperature ${temperature}`;

    test(`log-probabilities and entropies, ${key}`, async () => {
      const batch = chainBatch(vectors.samples.map(({ ids }) => ({ ids })));
      for (const [kind, factor] of [
        ['base', 0],
        ['adapter', scale],
      ] as const) {
        const { rows } = await lora.run(batch, adapter.tensors, factor, undefined, undefined, temperature);
        const want = (field: 'logprobs' | 'entropies') => vectors.samples.flatMap((s) => s[kind][key]![field]);
        expect(maxDifference(rows.logprobs, want('logprobs'))).toBeLessThan(1e-5);
        expect(maxDifference(rows.entropies, want('entropies'))).toBeLessThan(1e-5);
      }
    });

    test(`gradients of LoRA tensors and of base weights, ${key}`, async () => {
      const batch = chainBatch(vectors.samples);
      const coef = Float32Array.from(vectors.samples.flatMap((s) => s.coef));
      const entropyCoef = new Float32Array(coef.length).fill(vectors.entropyCoef);
      for (const [session, params] of [
        [lora, adapter.tensors],
        [full, everything],
      ] as const) {
        const { rows, gradients } = await session.run(batch, params, scale, coef, entropyCoef, temperature);
        const objective = coef.reduce(
          (sum, c, r) => sum + c * rows.logprobs[r]! + vectors.entropyCoef * rows.entropies[r]!,
          0,
        );
        expect(objective).toBeCloseTo(vectors.objective[key]!, 4);
        expect([...gradients!.keys()]).toEqual([...session.parameters.keys()]);
        let compared = 0;
        for (const [name, { data }] of gradients!) {
          const want = expected.get(`gradient.${temperature}.${name}`);
          if (!want) continue;
          const size = Math.max(...want.data.map(Math.abs));
          expect(maxDifference(data, want.data) / size, name).toBeLessThan(2e-5);
          compared++;
        }
        expect(compared).toBe(adapter.tensors.size + (session === full ? 4 : 0));
      }
    });
  }
});
