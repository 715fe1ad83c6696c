/**
 * Full-parameter training of a small base model on the same graph as everything else: every weight of the
 * folder is an input, every gradient an output. Used to make base models from scratch.
 */
import { join } from 'node:path';
import { readSafetensorsIndex, readTensor, writeSafetensors } from '../engine/safetensors.ts';
import { addTensors } from '../engine/tensors.ts';
import { createTrainingSession } from '../engine/training-session.ts';
import type { TensorMap } from '../engine/types.ts';
import { adamwStep, createOptimizerState, learningRateAt } from './optimizer.ts';
import type { PretrainSample } from './pretrain-text.ts';
import { packSamples, type Sample, tokensToRows } from './token-tree.ts';

export interface PretrainOptions {
  /** Model folder; its model.safetensors is trained in place, written at the end. */
  folder: string;
  /** The next sample, for ever. */
  samples: () => PretrainSample;
  /** Input tokens in all, and in one update. */
  tokens: number;
  tokensPerStep: number;
  learningRate: number;
  /** Share of the updates with a rising learning rate; cosine to 0 after it. */
  warmupShare: number;
  threads: number;
  log: (line: string) => void;
  /** Milliseconds. */
  now?: () => number;
}

const MAX_SAMPLE_TOKENS = 256;

/** Trains the weights. The same options and samples give the same bytes. */
export async function pretrain(options: PretrainOptions): Promise<void> {
  const now = options.now ?? Date.now;
  const { folder } = options;
  const weights: TensorMap = new Map(
    [...readSafetensorsIndex(folder)].map(([name, entry]) => [name, readTensor(entry)]),
  );
  const session = await createTrainingSession({
    folder,
    lora: null,
    mode: 'full',
    gradients: true,
    threads: options.threads,
  });
  const state = createOptimizerState(weights);
  const settings = { betas: [0.9, 0.95] as const, eps: 1e-8, weightDecay: 0.01, clipNorm: 1 };
  const steps = Math.max(1, Math.ceil(options.tokens / options.tokensPerStep));
  const warmupSteps = Math.ceil(steps * options.warmupShare);
  const schedule = { learningRate: options.learningRate, warmupSteps, schedule: 'cosine' as const };
  const limits = {
    maxTreeTokens: MAX_SAMPLE_TOKENS,
    tokensPerPass: options.tokensPerStep + MAX_SAMPLE_TOKENS,
  };
  const started = now();
  let average = 0;
  for (let step = 0; step < steps; step++) {
    const batch: Sample[] = [];
    for (let tokens = 0; tokens < options.tokensPerStep; ) {
      const { ids, lossFrom } = options.samples();
      batch.push({ promptIds: ids.slice(0, lossFrom), outputIds: ids.slice(lossFrom) });
      tokens += ids.length - 1;
    }
    const packed = packSamples(batch, limits);
    const targets = packed.offsets[packed.offsets.length - 1]!;
    const coef = new Float32Array(targets).fill(-1 / targets);
    let gradients: TensorMap | null = null;
    let loss = 0;
    for (const pass of packed.passes) {
      const rowCoef = tokensToRows(pass, coef);
      const result = await session.run(pass.batch, weights, 0, { coef: rowCoef });
      for (let r = 0; r < rowCoef.length; r++) loss += rowCoef[r]! * result.rows.logprobs[r]!;
      if (gradients === null) gradients = result.gradients!;
      else addTensors(gradients, result.gradients!);
    }
    adamwStep(weights, gradients!, state, learningRateAt(step, steps, schedule), settings);
    average = step === 0 ? loss : 0.95 * average + 0.05 * loss;
    if (step % 50 === 49 || step === steps - 1) {
      const seconds = (now() - started) / 1000;
      options.log(
        `pretraining ${step + 1}/${steps}  loss ${average.toFixed(3)}  ${Math.round(((step + 1) * options.tokensPerStep) / seconds)} tokens/s  ${Math.round(seconds)} s`,
      );
    }
  }
  await session.release();
  writeSafetensors(join(folder, 'model.safetensors'), weights, {
    dtype: 'F32',
    metadata: { format: 'pt' },
  });
}
