/**
 * The policy update against TRL's GRPOTrainer: every loss that both know, on the same samples. Compared are the
 * first step's loss and gradient, and the adapter after one and after ten optimiser steps, of the real
 * `GRPOTrainer.train()` and the real `updatePolicy`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { stream } from '../../src/base/random.ts';
import { onnxExecutor } from '../../src/engine/onnx/session.ts';
import { readAdapter } from '../../src/engine/peft.ts';
import { readSafetensors } from '../../src/engine/safetensors.ts';
import { copyAdapter } from '../../src/engine/tensors.ts';
import type { Adapter, TensorMap } from '../../src/engine/types.ts';
import { createCore } from '../../src/trainer/learner/core.ts';
import type { Learner, LearnerOptions } from '../../src/trainer/learner/learner.ts';
import type { LossConfig } from '../../src/trainer/loss.ts';
import { createOptimizerState, type OptimizerConfig } from '../../src/trainer/optimizer.ts';
import { type TrainedSample, updateOnSamples } from '../../src/trainer/policy-update.ts';
import { packSamples, rowsToTokens } from '../../src/trainer/token-tree.ts';
import { loadQwen3Tiny } from '../../test/vectors/qwen3-tiny.ts';
import { runPython } from '../python/run-python.ts';
import { trlConfig, type UpdateSettings } from '../python/trl-config.ts';
import { type Area, largestGap, tensorGap } from './check.ts';

const PROGRAM = fileURLToPath(new URL('../python/trl_step.py', import.meta.url));
const TOKENIZER = fileURLToPath(new URL('../../test/vectors/byte-tokenizer', import.meta.url));
const LIMITS = { maxTreeTokens: 48, tokensPerPass: 128 };
const STEPS = 10;
const STRETCH = 1024;
const TOLERANCE = { loss: 1e-5, gradient: 1e-4, adapter: 5e-4 };

/** `microBatches`: TRL takes the step's samples in so many parts. */
export interface LossCase {
  name: string;
  settings: UpdateSettings;
  microBatches: number;
}

const PLAIN: LossConfig = {
  kind: 'grpo',
  clipLow: 0.2,
  clipHigh: 0.2,
  aggregation: 'token',
  constantLength: 16,
  kl: { coef: 0, estimator: 'k3' },
  entropy: 0,
  importance: { level: 'sequence', mode: 'none', cap: 3 },
};
const OPTIMIZER: OptimizerConfig = { betas: [0.9, 0.99], eps: 1e-8, weightDecay: 0.01, clipNorm: 1e9 };

function lossCase(
  name: string,
  loss: Partial<LossConfig>,
  change: Partial<UpdateSettings & { microBatches: number; clipNorm: number }> = {},
): LossCase {
  const { microBatches = 1, clipNorm = 1e9, ...rest } = change;
  const settings = {
    loss: { ...PLAIN, ...loss },
    optimizer: { ...OPTIMIZER, clipNorm },
    temperature: 1,
    epochs: 1,
    learningRate: 0.005,
    ...rest,
  };
  return { name, settings, microBatches };
}

/** Ten steps of this leave the policy near the sampler. */
const SLOW = 2e-4;
const KL = { coef: 0.1, estimator: 'k3' } as const;
const TIGHT = { clipLow: 0.05, clipHigh: 0.1 };

/** The loss with everything at once: two epochs, clip-higher, KL, correction, clipping, a temperature. */
export const FULL_CASE = lossCase(
  'dapo, clip-higher, KL, sampler correction, 2 epochs, norm clipped, temperature 0.7',
  { ...TIGHT, kl: KL, importance: { level: 'token', mode: 'truncate', cap: 1.2 } },
  { epochs: 2, clipNorm: 0.05, temperature: 0.7, microBatches: 4 },
);

export const LOSS_CASES: LossCase[] = [
  lossCase('grpo', { aggregation: 'sequence' }),
  lossCase('grpo, KL', { aggregation: 'sequence', kl: KL }),
  lossCase('dr_grpo', { aggregation: 'constant' }),
  lossCase('dapo', {}),
  lossCase('dapo, KL, in 4 micro-batches', { kl: KL }, { microBatches: 4 }),
  lossCase('dapo, entropy bonus', { entropy: 0.05 }),
  lossCase('dapo, clip-higher, 2 epochs', TIGHT, { epochs: 2 }),
  lossCase('grpo, clip-higher, KL, 2 epochs', { ...TIGHT, aggregation: 'sequence', kl: KL }, { epochs: 2 }),
  lossCase(
    'gspo, 2 epochs',
    { kind: 'gspo', aggregation: 'sequence', clipLow: 3e-3, clipHigh: 4e-3 },
    { epochs: 2 },
  ),
  lossCase('cispo, 2 epochs', { kind: 'cispo', clipHigh: 0.05 }, { epochs: 2 }),
  lossCase('dapo, correction by token, truncated', {
    importance: { level: 'token', mode: 'truncate', cap: 1.2 },
  }),
  lossCase('dapo, correction by sequence, truncated', {
    importance: { level: 'sequence', mode: 'truncate', cap: 1.2 },
  }),
  // A masked token leaves our denominators but not TRL's. Under a constant one that is no difference while some
  // token of each sample stays; the second has nothing to mask while the policy moves little.
  lossCase(
    'dr_grpo, correction by token, masked',
    { aggregation: 'constant', importance: { level: 'token', mode: 'mask', cap: 1.2 } },
    { learningRate: SLOW },
  ),
  lossCase(
    'dapo, correction by sequence, masked beyond 1000',
    { importance: { level: 'sequence', mode: 'mask', cap: 1000 } },
    { learningRate: SLOW },
  ),
  lossCase('dapo, gradient norm clipped', {}, { clipNorm: 0.02 }),
  lossCase('dapo, temperature 0.7', {}, { temperature: 0.7 }),
  FULL_CASE,
];

/** What TRL made of a case. */
export interface TrlResult {
  loss: number;
  gradient: TensorMap;
  /** Adapter after step 1 and after step 10. */
  first: TensorMap;
  last: TensorMap;
}

const stepLine = z.object({ step: z.number(), loss: z.number() });

/** Runs TRL on the cases, one after the other in one process. `scratch` is an existing folder. */
export function runTrl(
  python: string,
  scratch: string,
  cases: readonly LossCase[],
  samples: readonly TrainedSample[],
): TrlResult[] {
  const { folder, adapterFolder } = loadQwen3Tiny();
  const outOf = (i: number): string => join(scratch, `trl-${i}`);
  const jobs = cases.map(({ settings, microBatches }, i) => {
    mkdirSync(outOf(i));
    return {
      model: folder,
      tokenizer: TOKENIZER,
      adapter: adapterFolder,
      samples,
      config: {
        ...trlConfig(settings),
        per_device_train_batch_size: samples.length / microBatches,
        gradient_accumulation_steps: microBatches,
        steps_per_generation: microBatches,
      },
      steps: STEPS,
      threads: 1,
      out: outOf(i),
      keep: [1, STEPS],
    };
  });
  const file = join(scratch, 'trl.json');
  writeFileSync(file, JSON.stringify(jobs));
  const output = runPython(python, [PROGRAM, file]);
  const steps = output
    .split('\n')
    .filter((line) => line.startsWith('{"step"'))
    .map((line) => stepLine.parse(JSON.parse(line)));
  if (steps.length !== cases.length * STEPS) throw new Error(`TRL made ${steps.length} steps`);
  return cases.map((_, i) => {
    const read = (name: string): TensorMap => readSafetensors(join(outOf(i), `${name}.safetensors`)).tensors;
    return {
      loss: steps[i * STEPS]!.loss,
      gradient: read('gradient'),
      first: read('step-1'),
      last: read(`step-${STEPS}`),
    };
  });
}

/**
 * Six pairs of samples with shared prompts, sampled by a policy that is near the adapter's: its log-probabilities
 * are the adapter's with noise of 0.15 nats.
 */
export async function drawSamples(temperature = 1): Promise<TrainedSample[]> {
  const random = stream(11, 'conformance', 'losses');
  const ids = (n: number): number[] => Array.from({ length: n }, () => 2 + random.int(94));
  const samples: TrainedSample[] = [];
  for (let pair = 0; pair < 6; pair++) {
    const promptIds = ids(3 + random.int(9));
    for (let member = 0; member < 2; member++)
      samples.push({
        promptIds,
        outputIds: ids(2 + random.int(9)),
        logprobs: [],
        advantage: random.normal(),
      });
  }
  const learner = await openOnnx(optionsOf(OPTIMIZER));
  const packed = packSamples(samples, LIMITS);
  const own = new Float32Array(packed.offsets.at(-1)!);
  for (const pass of packed.passes)
    rowsToTokens(pass, (await learner.rowValues(pass.batch, 'policy', temperature)).logprobs, own);
  await learner.close();
  return samples.map((sample, s) => ({
    ...sample,
    logprobs: [...own.subarray(packed.offsets[s], packed.offsets[s + 1])].map((x) =>
      Math.min(-1e-6, x + 0.15 * random.normal()),
    ),
  }));
}

function optionsOf(optimizer: OptimizerConfig): LearnerOptions {
  const { folder: modelFolder, adapterFolder } = loadQwen3Tiny();
  const adapter: Adapter = readAdapter(adapterFolder);
  const start = {
    adapter,
    reference: copyAdapter(adapter),
    optimizer: createOptimizerState(adapter.tensors),
  };
  return { modelFolder, spec: adapter.spec, optimizer, threads: 1, start };
}

export type OpenLearner = (options: LearnerOptions) => Promise<Learner>;
export const openOnnx: OpenLearner = (options) => createCore(options, onnxExecutor);

/** The same by lexpo, on a learner. */
export async function runOurs(
  open: OpenLearner,
  { settings }: LossCase,
  samples: readonly TrainedSample[],
): Promise<TrlResult> {
  const { optimizer, learningRate, ...rest } = settings;
  const update = { ...rest, limits: LIMITS };
  // lr · g / (|g| + ε) with ε far above every |g| is lr / ε · g: the adapter moves by so many gradients, which
  // are then exact next to the adapter's own size.
  const plain = { betas: [0, 0] as const, eps: 1e6, weightDecay: 0, clipNorm: optimizer.clipNorm };
  const probe = await open(optionsOf(plain));
  const before = (await probe.state()).adapter.tensors;
  const { loss } = await updateOnSamples(probe, samples, () => STRETCH * plain.eps, { ...update, epochs: 1 });
  const moved = (await probe.state()).adapter.tensors;
  await probe.close();
  const gradient: TensorMap = new Map(
    [...before].map(([name, { shape, data }]) => [
      name,
      { shape, data: data.map((x, i) => (x - moved.get(name)!.data[i]!) / STRETCH) },
    ]),
  );
  const learner = await open(optionsOf(optimizer));
  // The first step's adapter in the middle of several epochs: seen when the second asks for its rate.
  const states: TensorMap[] = [];
  const watched: Learner = {
    ...learner,
    async update(rate) {
      const done = await learner.update(rate);
      states.push((await learner.state()).adapter.tensors);
      return done;
    },
  };
  while (states.length < STEPS) await updateOnSamples(watched, samples, () => learningRate, update);
  await learner.close();
  return { loss, gradient, first: states[0]!, last: states[STEPS - 1]! };
}

/** The checks of one case. */
function compare(name: string, ours: TrlResult, trl: TrlResult): Area['checks'] {
  const scale = Math.max(1, Math.abs(trl.loss));
  return [
    {
      check: `${name}: loss`,
      error: largestGap([ours.loss / scale], [trl.loss / scale]),
      tolerance: TOLERANCE.loss,
    },
    {
      check: `${name}: gradient`,
      error: tensorGap(ours.gradient, trl.gradient),
      tolerance: TOLERANCE.gradient,
    },
    {
      check: `${name}: adapter after 1 step`,
      error: tensorGap(ours.first, trl.first),
      tolerance: TOLERANCE.adapter,
    },
    {
      check: `${name}: adapter after ${STEPS} steps`,
      error: tensorGap(ours.last, trl.last),
      tolerance: TOLERANCE.adapter,
    },
  ];
}

/** Every loss on the onnx learner, and the fullest one on the other learners. */
export async function lossChecks(
  python: string,
  scratch: string,
  learners: ReadonlyMap<string, OpenLearner>,
): Promise<Area[]> {
  const samples = await drawSamples();
  const trl = runTrl(python, scratch, LOSS_CASES, samples);
  const losses: Area = { title: "The policy update, against TRL's GRPOTrainer.train()", checks: [] };
  for (const [i, one] of LOSS_CASES.entries())
    losses.checks.push(...compare(one.name, await runOurs(openOnnx, one, samples), trl[i]!));
  const others: Area = { title: `The learners, against TRL: ${FULL_CASE.name}`, checks: [] };
  for (const [name, open] of learners)
    others.checks.push(
      ...compare(name, await runOurs(open, FULL_CASE, samples), trl[LOSS_CASES.indexOf(FULL_CASE)]!),
    );
  return [losses, others];
}
