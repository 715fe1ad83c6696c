import { readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { createDecodeSession, type DecodeSession } from './decode-session.ts';
import { loraScale, readAdapter } from './peft.ts';
import { ALL_MODULES, chainBatch, maxDifference, randomAdapter, tinyModel } from './test-support.ts';
import { cacheFrom, forcedLogprobs, writeColumns } from './test-support-decode.ts';
import { createTrainingSession } from './training-session.ts';
import type { LoraSpec, TensorMap } from './types.ts';

const shape = { vocab: 130, hidden: 96, layers: 2, heads: 4, kvHeads: 2, headDim: 32, ffn: 800 };
// wide enough that two threads divide the columns of its products
const lora: LoraSpec = { r: 32, alpha: 16, rslora: false, targets: ALL_MODULES };

describe('decode session', () => {
  let folder: string;
  let session: DecodeSession;
  let params: TensorMap;
  const random = stream(5, 'decode-test');
  const draw = (n: number): number[] => Array.from({ length: n }, () => random.int(shape.vocab));

  beforeAll(async () => {
    folder = tinyModel(shape);
    session = await createDecodeSession({ folder, lora, threads: 2 });
    params = randomAdapter(folder, lora).tensors;
  });
  afterAll(async () => {
    await session.release();
    rmSync(folder, { recursive: true });
  });

  test('prefill and steps give the training graph’s log-probabilities', async () => {
    const samples = [
      { ids: draw(30), promptLength: 7 },
      { ids: draw(41), promptLength: 18 },
      { ids: draw(80), promptLength: 57 },
    ];
    const training = await createTrainingSession({
      folder,
      lora,
      mode: 'lora',
      gradients: false,
      threads: 2,
    });
    for (const [adapter, scale] of [
      [params, loraScale(lora)],
      [null, 0],
    ] as const) {
      const batch = chainBatch(samples);
      const { rows } = await training.run(batch, params, scale, { temperature: 0.8 });
      let row = 0;
      const want = samples.map((s) => s.ids.map((_, i) => (i < s.promptLength ? 0 : rows.logprobs[row++]!)));

      const got = await forcedLogprobs(session, samples, adapter, 0.8);
      got.forEach((logprobs, r) => {
        const { promptLength } = samples[r]!;
        expect(logprobs).toHaveLength(23);
        expect(maxDifference(logprobs, want[r]!.slice(promptLength))).toBeLessThan(1e-5);
      });
    }
    await training.release();
  });

  test('a row is the same bytes in any batch and at any capacity', async () => {
    const prompts = Array.from({ length: 40 }, (_, i) => Int32Array.from(draw(1 + ((i * 37) % 150))));
    const all = await session.prefill(prompts, params, new Float32Array(40).fill(1));
    const wide = cacheFrom(session, all, prompts, 192);
    const tokens = Int32Array.from(draw(40));
    const positions = Int32Array.from(prompts, (p) => p.length);
    const ones = new Float32Array(40).fill(1);
    const whole = await session.step(
      { tokens, positions, capacity: 192, ...wide, temperature: ones },
      params,
    );
    for (const b of [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17, 24, 33, 40]) {
      // rows from the end, so that a row also changes its place in the batch
      const from = 40 - b;
      const some = prompts.slice(from);
      const prefilled = await session.prefill(some, params, ones.subarray(from));
      const logprobs = all.logprobs.subarray(from * shape.vocab);
      expect(maxDifference(prefilled.logprobs, logprobs), `prefill ${b}`).toBe(0);
      for (const capacity of [192, 256, 320, 640]) {
        const cache = cacheFrom(session, prefilled, some, capacity);
        const out = await session.step(
          {
            tokens: tokens.subarray(from),
            positions: positions.subarray(from),
            capacity,
            ...cache,
            temperature: ones.subarray(from),
          },
          params,
        );
        expect(
          maxDifference(out.logprobs, whole.logprobs.subarray(from * shape.vocab)),
          `step ${b}, ${capacity}`,
        ).toBe(0);
      }
    }
  });
});

test('greedy decoding continues prompts as transformers does', async () => {
  const folder = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));
  interface Sample {
    ids: number[];
    promptLength: number;
    base: { greedy: number[] };
    adapter: { greedy: number[] };
  }
  const { samples } = JSON.parse(readFileSync(`${folder}/vectors.json`, 'utf8')) as { samples: Sample[] };
  const adapter = readAdapter(`${folder}/adapter`);
  const session = await createDecodeSession({ folder, lora: adapter.spec, threads: 1 });
  const best = (logprobs: Float32Array, row: number): number => {
    const own = logprobs.subarray(row * session.vocabSize, (row + 1) * session.vocabSize);
    return own.indexOf(Math.max(...own));
  };
  const prompts = samples.map((s) => Int32Array.from(s.ids.slice(0, s.promptLength)));
  const ones = new Float32Array(samples.length).fill(1);
  for (const kind of ['base', 'adapter'] as const) {
    const params = kind === 'base' ? null : adapter.tensors;
    const first = await session.prefill(prompts, params, ones);
    const cache = cacheFrom(session, first, prompts, 64);
    let logprobs = first.logprobs;
    const outputs: number[][] = samples.map(() => []);
    for (let i = 0; i < 8; i++) {
      outputs.forEach((ids, row) => {
        ids.push(best(logprobs, row));
      });
      const positions = Int32Array.from(prompts, (p) => p.length + i);
      const tokens = Int32Array.from(outputs, (ids) => ids[i]!);
      const input = { tokens, positions, capacity: 64, ...cache, temperature: ones };
      const out = await session.step(input, params);
      writeColumns(session, cache.keys, out.newKeys, positions, 64);
      writeColumns(session, cache.values, out.newValues, positions, 64);
      logprobs = out.logprobs;
    }
    expect(outputs).toEqual(samples.map((s) => s[kind].greedy));
  }
  await session.release();
});
