/** Every weight of a model trained, against PyTorch: `full_parameters` of scripts/reference-vectors.py. */
import { expect, test } from 'vitest';
import { loadQwen3Tiny } from '../../test/vectors/qwen3-tiny.ts';
import { adamwStep, createOptimizerState } from '../trainer/optimizer.ts';
import { readSafetensors } from './safetensors.ts';
import { chainBatch, maxDifference } from './test-support.ts';
import { createTrainingSession } from './training-session.ts';

const { folder, vectors } = loadQwen3Tiny();
const expected = readSafetensors(`${folder}/full.safetensors`).tensors;
const OPTIMIZER = { betas: [0.9, 0.95] as const, eps: 1e-3, weightDecay: 0.01, clipNorm: 1e9 };

test.each([
  { recompute: false, rowChunks: 1 },
  { recompute: true, rowChunks: 3 },
])('gradients of all weights and five AdamW steps, %o', async (memory) => {
  const options = { folder, lora: null, mode: 'full', gradients: true, threads: 1, memory } as const;
  const session = await createTrainingSession(options);
  const weights = readSafetensors(`${folder}/model.safetensors`).tensors;
  expect([...session.parameters.keys()].sort()).toEqual([...weights.keys()].sort());
  const state = createOptimizerState(weights);
  const batch = chainBatch(vectors.samples);
  const coef = Float32Array.from(vectors.samples.flatMap((sample) => sample.coef));
  const entropyCoef = new Float32Array(coef.length).fill(vectors.entropyCoef);
  for (const [step, objective] of expected.get('objectiveBeforeStep')!.data.entries()) {
    const { rows, gradients } = await session.run(batch, weights, 0, { coef, entropyCoef });
    const sum = coef.reduce(
      (s, c, r) => s + c * rows.logprobs[r]! + vectors.entropyCoef * rows.entropies[r]!,
      0,
    );
    expect(Math.abs(sum - objective), `step ${step}`).toBeLessThan(1e-4);
    for (const [name, { data }] of step === 0 ? gradients! : []) {
      const want = expected.get(`gradient.${name}`)!.data;
      expect(maxDifference(data, want) / Math.max(...want.map(Math.abs)), name).toBeLessThan(2e-5);
    }
    adamwStep(weights, gradients!, state, 1e-2, OPTIMIZER);
  }
  for (const [name, { data }] of weights)
    expect(maxDifference(data, expected.get(`adamw.${name}`)!.data), name).toBeLessThan(2e-5);
  await session.release();
});
