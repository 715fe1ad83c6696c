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
import { maxDifference, tensorGap } from '../../src/engine/test-support.ts';
import type { Adapter, TensorMap } from '../../src/engine/types.ts';
import { createCore } from '../../src/trainer/learner/core.ts';
import type { Learner, LearnerOptions } from '../../src/trainer/learner/learner.ts';
import { createOptimizerState, type OptimizerConfig } from '../../src/trainer/optimizer.ts';
import { type TrainedSample, updateOnSamples } from '../../src/trainer/policy-update.ts';
import { packSamples, rowsToTokens } from '../../src/trainer/token-tree.ts';
import { loadQwen3Tiny } from '../../test/vectors/qwen3-tiny.ts';
import { runPython } from '../python/run-python.ts';
import { trlConfig } from '../python/trl-config.ts';
import type { Area } from './check.ts';
import { FULL_CASE, LOSS_CASES, type LossCase, OPTIMIZER } from './loss-cases.ts';

const PROGRAM = fileURLToPath(new URL('../python/trl_step.py', import.meta.url));
const TOKENIZER = fileURLToPath(new URL('../../test/vectors/byte-tokenizer', import.meta.url));
const LIMITS = { maxTreeTokens: 48, tokensPerPass: 128 };
const STEPS = 10;
const STRETCH = 1024;
const TOLERANCE = { loss: 1e-5, gradient: 1e-4, adapter: 5e-4 };

/** What TRL made of a case. */
interface TrlResult {
  loss: number;
  gradient: TensorMap;
  /** Adapter after step 1 and after step 10. */
  first: TensorMap;
  last: TensorMap;
}

const stepLine = z.object({ step: z.number(), loss: z.number() });

/** Runs TRL on the cases, one after the other in one process. `scratch` is an existing folder. */
function runTrl(
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
async function drawSamples(temperature = 1): Promise<TrainedSample[]> {
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
const openOnnx: OpenLearner = (options) => createCore(options, onnxExecutor);

/** The same by lexpo, on a learner. */
async function runOurs(
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
      error: maxDifference([ours.loss / scale], [trl.loss / scale]),
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
