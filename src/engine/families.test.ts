/** Every family against PyTorch, transformers and PEFT (test/vectors/families), and decoding against training. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FAMILIES, type FamilyVectors, loadFamily } from '../../test/vectors/families.ts';
import { stream } from '../base/random.ts';
import { parameterCount } from '../config/plan.ts';
import { adamwStep, createOptimizerState } from '../trainer/optimizer.ts';
import { createDecodeSession } from './decode-session.ts';
import { readDecoderConfig } from './model-config.ts';
import { loraScale, readAdapter } from './peft.ts';
import { readSafetensorsIndex, readTensor } from './safetensors.ts';
import { copyAdapter } from './tensors.ts';
import { chainBatch, maxDifference } from './test-support.ts';
import { forcedLogprobs } from './test-support-decode.ts';
import { createTrainingSession, type TrainingSession } from './training-session.ts';
import type { Adapter, LoraSpec, TensorMap } from './types.ts';

const KINDS = ['base', 'lora', 'rslora'] as const;
const scaleOf = (spec: LoraSpec, kind: (typeof KINDS)[number]): number =>
  kind === 'base' ? 0 : loraScale({ ...spec, rslora: kind === 'rslora' });

function coefficients({ samples, entropyCoef }: FamilyVectors) {
  const coef = Float32Array.from(samples.flatMap((s) => s.coef));
  return { coef, entropyCoef: new Float32Array(coef.length).fill(entropyCoef) };
}

/** Largest difference over the largest value. */
function relative(got: ArrayLike<number>, want: Float32Array): number {
  return maxDifference(got, want) / Math.max(...want.map(Math.abs));
}

describe.each(FAMILIES)('%s', (name) => {
  const { folder, vectors, expected } = loadFamily(name);
  let adapter: Adapter;
  let session: TrainingSession;

  beforeAll(async () => {
    adapter = readAdapter(`${folder}/adapter`);
    const options = { folder, lora: adapter.spec, mode: 'lora', gradients: true, threads: 1 } as const;
    session = await createTrainingSession(options);
  });
  afterAll(() => session?.release());

  test('log-probabilities and entropies of every token', async () => {
    const batch = chainBatch(vectors.samples.map(({ ids }) => ({ ids })));
    for (const kind of KINDS) {
      const { rows } = await session.run(batch, adapter.tensors, scaleOf(adapter.spec, kind));
      const { logprobs, entropies } = vectors.kinds[kind];
      expect(maxDifference(rows.logprobs, logprobs.flat()), kind).toBeLessThan(1e-5);
      expect(maxDifference(rows.entropies, entropies.flat()), kind).toBeLessThan(1e-5);
    }
  });

  test('logits of every token of the vocabulary, up to the constant that softmax ignores', async () => {
    const { ids } = vectors.samples.at(-1)!;
    for (const kind of KINDS) {
      const { shape, data } = expected.get(`logits.${kind}`)!;
      const [length, vocab] = shape as [number, number];
      const batch = {
        ...chainBatch([{ ids }]),
        hiddenIndex: Int32Array.from({ length: length * vocab }, (_, i) => Math.floor(i / vocab)),
        targetId: Int32Array.from({ length: length * vocab }, (_, i) => i % vocab),
      };
      const { rows } = await session.run(batch, adapter.tensors, scaleOf(adapter.spec, kind));
      const want = data.map((logit, i) => {
        const row = data.subarray(i - (i % vocab), i - (i % vocab) + vocab);
        return logit - Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
      });
      expect(maxDifference(rows.logprobs, want), kind).toBeLessThan(2e-5);
    }
  });

  test.each(['lora', 'rslora'] as const)('%s: gradients on all seven projections', async (kind) => {
    const { coef, entropyCoef } = coefficients(vectors);
    const batch = chainBatch(vectors.samples);
    const options = { coef, entropyCoef, temperature: 0.7 };
    const { rows, gradients } = await session.run(
      batch,
      adapter.tensors,
      scaleOf(adapter.spec, kind),
      options,
    );
    const objective = coef.reduce(
      (s, c, r) => s + c * rows.logprobs[r]! + entropyCoef[r]! * rows.entropies[r]!,
      0,
    );
    expect(objective).toBeCloseTo(vectors.kinds[kind]['objective at temperature 0.7'], 4);
    const modules = new Set<string>();
    for (const [tensor, { data }] of gradients!) {
      // PyTorch itself is up to 1.3e-5 away from the same in f64
      expect(relative(data, expected.get(`gradient.${kind}.${tensor}`)!.data), tensor).toBeLessThan(1e-4);
      modules.add(tensor.split('.').at(-3)!);
    }
    expect(modules.size).toBe(7);
  });

  test.each(['lora', 'rslora'] as const)('%s: ten steps of AdamW', async (kind) => {
    const { adamw } = vectors;
    const { tensors } = copyAdapter(adapter);
    const state = createOptimizerState(tensors);
    const config = {
      betas: [adamw.beta1, adamw.beta2] as const,
      eps: adamw.eps,
      weightDecay: adamw.weightDecay,
      clipNorm: Number.POSITIVE_INFINITY,
    };
    const batch = chainBatch(vectors.samples);
    const options = coefficients(vectors);
    for (let step = 0; step < adamw.steps; step++) {
      const { rows, gradients } = await session.run(batch, tensors, scaleOf(adapter.spec, kind), options);
      const objective = options.coef.reduce(
        (s, c, r) => s + c * rows.logprobs[r]! + vectors.entropyCoef * rows.entropies[r]!,
        0,
      );
      expect(objective).toBeCloseTo(vectors.kinds[kind].objectiveBeforeStep[step]!, 3);
      adamwStep(tensors, gradients!, state, adamw.lr, config);
    }
    for (const [tensor, { data }] of tensors)
      expect(maxDifference(data, expected.get(`adamw.${kind}.${tensor}`)!.data), tensor).toBeLessThan(1e-4);
  });

  test('the decode graph gives the training graph’s log-probabilities', async () => {
    const batch = chainBatch(vectors.samples);
    for (const kind of KINDS) {
      const spec = { ...adapter.spec, rslora: kind === 'rslora' };
      const decode = await createDecodeSession({ folder, lora: spec, threads: 1 });
      const params: TensorMap | null = kind === 'base' ? null : adapter.tensors;
      const { rows } = await session.run(batch, adapter.tensors, scaleOf(spec, kind), { temperature: 0.8 });
      const got = await forcedLogprobs(decode, vectors.samples, params, 0.8);
      expect(maxDifference(got.flat(), rows.logprobs), kind).toBeLessThan(1e-5);
      for (const [i, sample] of vectors.samples.entries())
        expect(await forcedLogprobs(decode, [sample], params, 0.8), 'alone, bit for bit').toEqual([got[i]]);
      await decode.release();
    }
  });

  test('the plan counts the parameters that the files hold', () => {
    const elements = [...readSafetensorsIndex(folder).values()].map(({ shape }) =>
      shape.reduce((a, b) => a * b),
    );
    expect(parameterCount(readDecoderConfig(folder))).toBe(elements.reduce((a, b) => a + b));
  });
});

test.each(['llama-biases', 'qwen2.5'])('%s: biases are parameters where every weight is', async (name) => {
  const { folder, vectors } = loadFamily(name);
  const session = await createTrainingSession({
    folder,
    lora: null,
    mode: 'full',
    gradients: true,
    threads: 1,
  });
  const params: TensorMap = new Map(
    [...readSafetensorsIndex(folder)].map(([tensor, entry]) => [tensor, readTensor(entry)]),
  );
  const batch = chainBatch(vectors.samples);
  const { coef } = coefficients(vectors);
  const valueWith = async (tensor: string, direction: Float32Array, step: number) => {
    const { shape, data } = params.get(tensor)!;
    const moved = { shape, data: data.map((x, i) => x + step * direction[i]!) };
    const { rows } = await session.run(batch, new Map(params).set(tensor, moved), 0, { coef });
    return coef.reduce((sum, c, r) => sum + c * rows.logprobs[r]!, 0);
  };
  const { gradients } = await session.run(batch, params, 0, { coef });
  const biases = [...params.keys()].filter((tensor) => tensor.endsWith('.bias'));
  expect(biases).toHaveLength(name === 'qwen2.5' ? 6 : 14);
  const random = stream(2, name);
  for (const tensor of biases) {
    const gradient = gradients!.get(tensor)!.data;
    const direction = gradient.map((g) => Math.sign(g) + 0.1 * random.normal());
    const exact = gradient.reduce((sum, g, i) => sum + g * direction[i]!, 0);
    const [up, down] = [await valueWith(tensor, direction, 3e-3), await valueWith(tensor, direction, -3e-3)];
    // the bias of k moves every score of a query alike: its gradient is only what the rotation leaves
    expect(Math.abs((up - down) / 6e-3 - exact) / (0.05 + Math.abs(exact)), tensor).toBeLessThan(0.01);
  }
  await session.release();
});
