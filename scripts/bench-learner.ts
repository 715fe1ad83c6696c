/**
 * `npm run bench:learner`: what a step of the policy update costs on one recorded batch of the STARD run
 * (16 questions × 8 rollouts): with the token tree, by the same learner without it, and by TRL's GRPOTrainer
 * on the same samples, model, adapter and threads, each at the best of several batch sizes. docs/bench-learner.md
 * tells what is compared. The last line is one JSON object. Options: `--rounds N` (default 5), `--threads N`
 * (default 2), `--micro-batches N,N` (TRL's that are tried).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf, UserError } from '../src/base/errors.ts';
import { median } from '../src/base/statistics.ts';
import { treeLimits } from '../src/trainer/create-learner.ts';
import { PACKINGS } from './bench-learner/packings.ts';
import { type Recorded, recordedBatch } from './bench-learner/record.ts';
import { type Stepper, type StepReport, startStepper } from './bench-learner/stepper.ts';
import type { Job } from './bench-learner/worker.ts';
import { pythonEnvironment } from './python/environment.ts';
import { trlConfig } from './python/trl-config.ts';

const GOALS = { ratioToTrl: 0.2, ratioToSingle: 0.5, memoryToTrl: 1 };
/** Padded positions of a pass that tree and padded samples are tried with; of each its best counts. */
const PASSES = [1024, 4096];
/** TRL's micro-batches that are tried; the largest is the unit in which calls are counted. */
const MICRO_BATCHES = [4, 8, 16, 32];
/** Small, so that a batch trained on again and again asks for the same work. */
const LEARNING_RATE = 1e-6;
const WORKER = fileURLToPath(new URL('bench-learner/worker.ts', import.meta.url));
const TRL = fileURLToPath(new URL('python/trl_step.py', import.meta.url));

interface Contestant {
  name: string;
  stepper: Stepper;
  reports: StepReport[];
}

async function bench(): Promise<void> {
  const { rounds, threads, microBatches } = options();
  process.chdir(fileURLToPath(new URL('..', import.meta.url)));
  const environment = pythonEnvironment(console.log);
  const recorded = await recordedBatch();
  // TRL divides a batch into equal micro-batches: the calls beyond are left out on all sides.
  const largest = Math.max(...MICRO_BATCHES);
  const samples = recorded.samples.slice(0, recorded.samples.length - (recorded.samples.length % largest));
  const scratch = mkdtempSync(join(tmpdir(), 'lexpo-bench-learner-'));
  const open: Stepper[] = [];
  const start = async (name: string, opening: Promise<Stepper>): Promise<Contestant> => {
    const stepper = await opening;
    open.push(stepper);
    return { name, stepper, reports: [] };
  };
  try {
    const contestants: Contestant[] = [];
    for (const packing of PACKINGS)
      for (const tokensPerPass of packing === 'alone' ? [0] : PASSES) {
        const name = packing === 'alone' ? packing : `${packing}, ${tokensPerPass}`;
        const stepper = ours({ ...recorded, samples }, packing, tokensPerPass, threads, scratch);
        contestants.push(await start(name, stepper));
      }
    let microBatch = 0;
    if ('skip' in environment) console.log(`without TRL: ${environment.skip}`);
    else {
      const trl = (micro: number, corrected: boolean) =>
        trlStepper(environment.python, { ...recorded, samples }, micro, corrected, threads, scratch);
      microBatch = await bestMicroBatch(microBatches, trl);
      contestants.push(await start('TRL', trl(microBatch, true)));
      contestants.push(await start('TRL, no correction', trl(microBatch, false)));
    }
    for (let round = 0; round <= rounds; round++)
      for (const { stepper, reports } of contestants) {
        const report = await stepper.step();
        // The first round warms up.
        if (round > 0) reports.push(report);
      }
    const versions = 'skip' in environment ? {} : environment.versions;
    tell(recorded, samples.length, contestants, { rounds, threads, microBatch, versions });
  } finally {
    for (const stepper of open) await stepper.close();
    rmSync(scratch, { recursive: true });
  }
}

/** Our learner in a process of its own. */
function ours(
  { config, modelFolder, adapterFolder, samples }: Recorded,
  packing: Job['packing'],
  tokensPerPass: number,
  threads: number,
  scratch: string,
): Promise<Stepper> {
  const { loss, optimizer, rollout, learner } = config;
  const job: Job = {
    modelFolder,
    adapterFolder,
    samples,
    packing,
    update: {
      loss,
      limits: { ...treeLimits(learner), tokensPerPass },
      temperature: rollout.temperature,
      epochs: 1,
    },
    optimizer,
    learningRate: LEARNING_RATE,
    threads,
  };
  const file = join(scratch, `${packing}-${tokensPerPass}.json`);
  writeFileSync(file, JSON.stringify(job));
  return startStepper(process.execPath, ['--import', 'tsx', WORKER, file], {});
}

/** TRL in a process of its own. `corrected`: for the sampler, which costs it a forward pass. */
function trlStepper(
  python: string,
  { config, modelFolder, adapterFolder, samples }: Recorded,
  microBatch: number,
  corrected: boolean,
  threads: number,
  scratch: string,
): Promise<Stepper> {
  const { loss, optimizer, rollout } = config;
  const passes = samples.length / microBatch;
  const fields = trlConfig({
    loss,
    optimizer,
    temperature: rollout.temperature,
    epochs: 1,
    learningRate: LEARNING_RATE,
  });
  const job = {
    model: modelFolder,
    tokenizer: modelFolder,
    adapter: adapterFolder,
    samples,
    config: {
      ...fields,
      use_vllm: fields.use_vllm && corrected,
      per_device_train_batch_size: microBatch,
      gradient_accumulation_steps: passes,
      steps_per_generation: passes,
    },
    steps: 1_000,
    threads,
    wait: true,
  };
  const file = join(scratch, `trl-${microBatch}-${corrected}.json`);
  writeFileSync(file, JSON.stringify([job]));
  return startStepper(python, [TRL, file], { OMP_NUM_THREADS: String(threads), HF_HUB_OFFLINE: '1' });
}

/** TRL's fastest micro-batch, each tried with one step. */
async function bestMicroBatch(
  tried: readonly number[],
  trl: (micro: number, corrected: boolean) => Promise<Stepper>,
): Promise<number> {
  const seconds = new Map<number, number>();
  for (const micro of tried) {
    const stepper = await trl(micro, true);
    seconds.set(micro, (await stepper.step()).seconds);
    await stepper.close();
    console.log(`TRL, micro-batches of ${micro}: ${seconds.get(micro)!.toFixed(1)} s`);
  }
  return tried.reduce((best, micro) => (seconds.get(micro)! < seconds.get(best)! ? micro : best));
}

/** An unknown option is the user's mistake. */
function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new UserError(messageOf(error), undefined, 'options: --rounds, --threads, --micro-batches');
  }
}

function options(): { rounds: number; threads: number; microBatches: number[] } {
  const option = (value: string) => ({ type: 'string', default: value }) as const;
  const known = { rounds: option('5'), threads: option('2'), 'micro-batches': option(MICRO_BATCHES.join()) };
  const { values } = parsed(() => parseArgs({ options: known }));
  const [rounds, threads] = [Number(values.rounds), Number(values.threads)];
  const microBatches = values['micro-batches'].split(',').map(Number);
  if (![rounds, threads].every((n) => Number.isInteger(n) && n > 0))
    throw new UserError('--rounds and --threads are positive whole numbers');
  if (!microBatches.every((n) => MICRO_BATCHES.includes(n)))
    throw new UserError(`--micro-batches are some of ${MICRO_BATCHES.join(', ')}`);
  return { rounds, threads, microBatches };
}

interface Circumstances {
  rounds: number;
  threads: number;
  microBatch: number;
  versions: Record<string, string>;
}

function tell(
  recorded: Recorded,
  samples: number,
  contestants: Contestant[],
  { rounds, threads, microBatch, versions }: Circumstances,
): void {
  const secondsOf = (name: string): number | undefined => {
    const one = contestants.find((c) => c.name === name);
    return one && median(one.reports.map((r) => r.seconds));
  };
  const peakOf = (name: string): number | undefined =>
    contestants.find((c) => c.name === name)?.reports.at(-1)?.peakMegabytes;
  const ratio = (a: number | undefined, b: number | undefined): number | null =>
    a === undefined || b === undefined ? null : Number((a / b).toFixed(3));
  console.log(`\n${recorded.data}: ${samples} calls of 16 questions × 8 rollouts; ${threads} threads`);
  console.log(
    `${'a step'.padEnd(22)}${'seconds'.padStart(10)}${'range'.padStart(16)}${'peak MB'.padStart(10)}${'loss'.padStart(14)}`,
  );
  for (const { name, reports } of contestants) {
    const seconds = reports.map((r) => r.seconds);
    const range = `${Math.min(...seconds).toFixed(2)}–${Math.max(...seconds).toFixed(2)}`;
    const { peakMegabytes, loss } = reports.at(-1)!;
    console.log(
      `${name.padEnd(22)}${median(seconds).toFixed(2).padStart(10)}${range.padStart(16)}${peakMegabytes.toFixed(0).padStart(10)}${loss.toFixed(6).padStart(14)}`,
    );
  }
  checkSameWork(contestants);
  const fastest = (prefixes: string[]): string => {
    const names = contestants.map(({ name }) => name);
    const among = names.filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
    return among.reduce((a, b) => (secondsOf(b)! < secondsOf(a)! ? b : a));
  };
  const [tree, single] = [fastest(['tree']), fastest(['padded', 'alone'])];
  const counts = contestants[0]!.reports[0] as unknown as Record<string, number>;
  const result = {
    ratioToTrl: ratio(secondsOf(tree), secondsOf('TRL')),
    ratioToSingle: ratio(secondsOf(tree), secondsOf(single)),
    memoryToTrl: ratio(peakOf(tree), peakOf('TRL')),
  };
  const reached = Object.entries(GOALS).every(([name, goal]) => {
    const value = result[name as keyof typeof GOALS];
    return value === null || value <= goal;
  });
  console.log(
    `\n${JSON.stringify({
      bench: 'learner',
      data: recorded.data,
      ...result,
      ratioToTrlWithoutCorrection: ratio(secondsOf(tree), secondsOf('TRL, no correction')),
      ratioToAlone: ratio(secondsOf(tree), secondsOf('alone')),
      tree,
      single,
      tokensBefore: counts.tokensBefore,
      tokensAfter: counts.tokensAfter,
      tokensPadded: counts.tokensPadded,
      calls: samples,
      trlMicroBatch: microBatch,
      rounds,
      threads,
      goals: GOALS,
      reached,
      versions: { node: process.version, 'onnxruntime-node': ortVersion(), ...versions },
    })}`,
  );
}

/**
 * All made the same steps, so their last losses agree: ours to rounding, TRL's to its mean of the entropy bonus
 * over micro-batches. Without the correction TRL's is another loss.
 */
function checkSameWork(contestants: Contestant[]): void {
  const lossOf = ({ reports }: Contestant): number => reports.at(-1)!.loss;
  const want = lossOf(contestants[0]!);
  for (const one of contestants) {
    if (one.name === 'TRL, no correction') continue;
    const tolerance = one.name === 'TRL' ? 1e-3 : 1e-5;
    if (!(Math.abs(lossOf(one) - want) <= tolerance))
      throw new Error(
        `${one.name} has a loss of ${lossOf(one)}, the token tree of ${want}: not the same work`,
      );
  }
}

const ortVersion = (): string =>
  (createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }).version;

try {
  await bench();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(`bench:learner: ${error.message}`);
  process.exitCode = 1;
}
