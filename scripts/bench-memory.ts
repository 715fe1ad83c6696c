/**
 * The learner's memory: flat over many steps, and what recomputing and row chunks save and cost.
 *
 *   npm run bench:memory -- [--model models/tiny] [--steps 200]
 *
 * Every memory plan has a process of its own: 8 questions × 8 rollouts a step, of random lengths, so that the
 * shapes of passes change from step to step. The last line is one JSON object; ratios are to the plan `fast`.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { UserError } from '../src/base/errors.ts';
import { type Random, stream } from '../src/base/random.ts';
import { type DecoderConfig, readDecoderConfig } from '../src/engine/model-config.ts';
import { onnxExecutor } from '../src/engine/onnx/session.ts';
import { initAdapter, LORA_MODULES } from '../src/engine/peft.ts';
import type { MemoryPlan } from '../src/engine/training-graph.ts';
import { createCore } from '../src/trainer/learner/core.ts';
import { peakMemory } from '../src/trainer/memory-plan.ts';
import { createOptimizerState } from '../src/trainer/optimizer.ts';
import { packSamples, type Sample, tokensToRows } from '../src/trainer/token-tree.ts';

const PLANS: Record<string, MemoryPlan> = {
  fast: { recompute: false, rowChunks: 1 },
  'row chunks': { recompute: false, rowChunks: 8 },
  recompute: { recompute: true, rowChunks: 1 },
  both: { recompute: true, rowChunks: 8 },
};
/** Steps of the plans whose flatness is not asked for. */
const FEW = 12;
/** Steps until every common shape has been seen. */
const WARM = 20;

interface Measured {
  /** Resident bytes before the first step, after each step, and at most. */
  start: number;
  after: number[];
  peak: number;
  /** Processor time of a step, median: other programs hardly change it. */
  milliseconds: number;
}

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'models/tiny' },
    steps: { type: 'string', default: '200' },
    plan: { type: 'string' },
  },
});
const steps = Number(values.steps);
try {
  if (values.plan) console.log(JSON.stringify(await measure(values.model, steps, PLANS[values.plan]!)));
  else compare(values.model, steps);
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}

function compare(model: string, steps: number): void {
  if (!Number.isInteger(steps) || steps <= WARM)
    throw new UserError(`--steps is a whole number above ${WARM}`, 'bench:memory');
  const results = Object.keys(PLANS).map((plan): [string, Measured] => {
    const count = String(plan === 'fast' ? steps : FEW);
    const script = fileURLToPath(import.meta.url);
    const args = ['--import', 'tsx', script, '--plan', plan, '--model', model, '--steps', count];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`the plan ${plan} failed:\n${stderr}`);
    return [plan, JSON.parse(stdout)];
  });
  const fast = results[0]![1];
  const megabytes = (bytes: number): number => Math.round(bytes / 1e6);
  const ratio = (a: number, b: number): number => Number((a / b).toFixed(3));
  console.log(`${model}: 8 questions × 8 rollouts a step, one thread\n`);
  console.log('plan          MB of the steps   of fast   time of fast');
  const plans = results.map(([plan, { start, peak, milliseconds }]) => {
    const memory = ratio(peak - start, fast.peak - fast.start);
    const time = ratio(milliseconds, fast.milliseconds);
    const figures = [
      megabytes(peak - start)
        .toString()
        .padStart(15),
      memory.toFixed(2).padStart(10),
    ];
    console.log(`${plan.padEnd(14)}${figures.join('')}${time.toFixed(2).padStart(15)}`);
    return { plan, memoryToFast: memory, timeToFast: time };
  });
  const at = (step: number): number => megabytes(fast.after[step - 1]!);
  const marks = [WARM, Math.round(steps / 2), steps];
  console.log(`\nresident after step ${marks.map((step) => `${step}: ${at(step)} MB`).join(', ')}`);
  const report = {
    bench: 'memory',
    model,
    steps,
    /** Resident memory at the end over that after the warm steps, and over that at half-time. */
    endToWarm: ratio(fast.after[steps - 1]!, fast.after[WARM - 1]!),
    endToHalf: ratio(fast.after[steps - 1]!, fast.after[Math.round(steps / 2) - 1]!),
    plans,
  };
  console.log(`\n${JSON.stringify(report)}`);
}

async function measure(modelFolder: string, steps: number, memory: MemoryPlan): Promise<Measured> {
  const spec = { r: 16, alpha: 32, rslora: false, targets: [...LORA_MODULES] };
  const config = readDecoderConfig(modelFolder);
  const adapter = initAdapter(config, spec, stream(1, 'adapter'));
  const optimizer = { betas: [0.9, 0.99] as const, eps: 1e-8, weightDecay: 0, clipNorm: 1 };
  const start = { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) };
  const core = await createCore({ modelFolder, spec, optimizer, threads: 1, start, memory }, onnxExecutor);
  const random = stream(1, 'samples');
  const times: number[] = [];
  const result: Measured = { start: process.memoryUsage().rss, after: [], peak: 0, milliseconds: 0 };
  for (let step = 0; step < steps; step++) {
    const began = process.cpuUsage();
    const packed = packSamples(randomStep(config, random), { maxTreeTokens: 256, tokensPerPass: 2048 });
    const tokens = packed.offsets.at(-1)!;
    const coef = Float32Array.from({ length: tokens }, () => random.normal() / tokens);
    for (const pass of packed.passes) {
      await core.rowValues(pass.batch, 'policy', 1);
      await core.accumulate(pass.batch, tokensToRows(pass, coef), tokensToRows(pass, coef), 1);
    }
    await core.update(1e-4);
    const { user, system } = process.cpuUsage(began);
    times.push((user + system) / 1000);
    result.after.push(process.memoryUsage().rss);
  }
  await core.close();
  const sorted = times.sort((a, b) => a - b);
  return { ...result, peak: peakMemory(), milliseconds: sorted[sorted.length >> 1]! };
}

/** Random ids; rollouts of a question share their prompt. */
function randomStep({ vocabSize }: DecoderConfig, random: Random): Sample[] {
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(vocabSize));
  return Array.from({ length: 8 }, () => ids(20 + random.int(60))).flatMap((promptIds) =>
    Array.from({ length: 8 }, () => ({ promptIds, outputIds: ids(1 + random.int(48)) })),
  );
}
