/**
 * Our side of `bench:learner`: `worker.ts JOB` makes a step of the policy update on the recorded samples for
 * each line on stdin. See stepper.ts.
 */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { readAdapter } from '../../src/engine/peft.ts';
import { createOnnxLearner } from '../../src/trainer/learner/engine-learner.ts';
import { peakMemory } from '../../src/trainer/memory-plan.ts';
import { createOptimizerState, type OptimizerConfig } from '../../src/trainer/optimizer.ts';
import { type TrainedSample, type UpdateConfig, updatePacked } from '../../src/trainer/policy-update.ts';
import { type Packing, pack } from './packings.ts';

export interface Job {
  modelFolder: string;
  /** Trained on; a frozen copy of it is the reference. */
  adapterFolder: string;
  samples: TrainedSample[];
  packing: Packing;
  update: UpdateConfig;
  optimizer: OptimizerConfig;
  learningRate: number;
  threads: number;
}

/** Of 2²⁰ bytes, as on the other side. */
const peakMegabytes = (): number => peakMemory() / 2 ** 20;

const job = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as Job;
const adapter = readAdapter(job.adapterFolder);
const learner = await createOnnxLearner(
  {
    modelFolder: job.modelFolder,
    spec: adapter.spec,
    optimizer: job.optimizer,
    threads: job.threads,
    start: { adapter, reference: adapter, optimizer: createOptimizerState(adapter.tensors) },
  },
  () => {},
);
const say = (line: unknown): void => console.log(JSON.stringify(line));
say({ ready: true, peakMegabytes: peakMegabytes() });
for await (const _ of createInterface({ input: process.stdin })) {
  const start = performance.now();
  const packed = pack(job.samples, job.packing, job.update.limits);
  const { loss, gradNorm, tokensBefore, tokensAfter } = await updatePacked(
    learner,
    packed,
    job.samples,
    () => job.learningRate,
    job.update,
  );
  const seconds = (performance.now() - start) / 1000;
  const padded = packed.passes.reduce((sum, { batch }) => sum + batch.ids.length, 0);
  say({
    seconds,
    loss,
    peakMegabytes: peakMegabytes(),
    gradNorm,
    tokensBefore,
    tokensAfter,
    tokensPadded: padded,
    passes: packed.passes.length,
  });
}
await learner.close();
