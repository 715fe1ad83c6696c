/**
 * `npm run chaos`: a run with four worker processes on a real Redis, in which workers are killed by -9 at random,
 * Redis is stopped and killed (append-only on), and the endpoint hangs, breaks connections and answers 500; then
 * the same run undisturbed, in one process. Nothing may be lost or used twice, and the rewards must be the same.
 * The last line is one JSON object; the exit code is 0 only when all of that holds.
 *
 * Options: `--steps N` (4), `--questions N` (6), `--members N` (4), `--kills N` (12), `--seed N` (1).
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { stream } from '../src/base/random.ts';
import type { Trajectory } from '../src/rollout/trajectory.ts';
import { stepName } from '../src/trainer/run-folder.ts';
import { hasRedis, startRedis } from '../test/redis/redis-server.ts';
import { compareRuns } from './chaos/compare.ts';
import { startFaultProxy } from './chaos/fault-proxy.ts';
import { lexpo, type Program, until } from './chaos/programs.ts';
import { wholeOptions } from './whole-options.ts';

const FAULTS = { status500: 0.05, status503: 0.02, hang: 0.01, reset: 0.02 };
const WORKERS = 4;
const CONFIG = 'configs/quickstart.yaml';

const { steps, questions, members, kills, seed } = wholeOptions({
  steps: 4,
  questions: 6,
  members: 4,
  kills: 12,
  seed: 1,
});

const folder = mkdtempSync(join(tmpdir(), 'lexpo-chaos-'));
const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** The same of both runs. */
const settings = (dir: string): string[] =>
  [
    'run.name=chaos',
    `run.dir=${join(folder, dir)}`,
    `train.steps=${steps}`,
    `train.evalEvery=${steps}`,
    `train.checkpointEvery=${steps}`,
    `rollout.queriesPerStep=${questions}`,
    `rollout.groupSize=${members}`,
    'rollout.minGroup=2',
    'rollout.deadlineMs=8000',
    'eval.queries=4',
    'eval.bootstrap=10',
    'sft.share=0.05',
    'sft.epochs=1',
  ].flatMap((set) => ['--set', set]);

function trajectoriesOf(dir: string): Trajectory[] {
  return Array.from({ length: steps }, (_, i) => {
    const name = `${stepName(i + 1)}.jsonl.gz`;
    const text = gunzipSync(readFileSync(join(folder, dir, 'chaos', 'trajectories', name))).toString();
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Trajectory);
  }).flat();
}

function failuresOf(dir: string): Map<number, number> {
  const lines = readFileSync(join(folder, dir, 'chaos', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const rows = lines.map((line) => JSON.parse(line) as Record<string, number>);
  return new Map(
    rows.flatMap((row) => (row['rollout/failed'] === undefined ? [] : [[row.step!, row['rollout/failed']]])),
  );
}

async function disturbedRun() {
  const redis = await startRedis();
  const runs = join(folder, 'disturbed');
  mkdirSync(runs);
  const server = lexpo(['serve', 'models/tiny', '--port', '0', '--adapters', runs]);
  const workers: Program[] = [];
  let trainer: Program | null = null;
  let proxy: Awaited<ReturnType<typeof startFaultProxy>> | null = null;
  try {
    const [url] = await until(server, /http:\/\/\S+/);
    proxy = await startFaultProxy(url, FAULTS, seed);
    const distributed = [
      `endpoint={kind: vllm, logprobs: processed, replicas: [{url: "${proxy.url}"}]}`,
      `pool={redis: {url: "${redis.url}"}, attempts: 200, backoffMs: 100, jobDeadlineMs: 20000, lockMs: 3000}`,
    ].flatMap((set) => ['--set', set]);
    const startWorker = (place: number): void => {
      workers[place] = lexpo([
        'worker',
        CONFIG,
        ...settings('disturbed'),
        ...distributed,
        '--concurrency',
        '4',
      ]);
    };
    for (let place = 0; place < WORKERS; place++) startWorker(place);
    trainer = lexpo(['train', CONFIG, ...settings('disturbed'), ...distributed]);
    await until(trainer, /^step 0 /m);
    proxy.begin();
    say('the run has begun');
    const random = stream(seed, 'kills');
    let killed = 0;
    let restarts = 0;
    while (killed < kills && trainer.alive()) {
      await sleep(500 + random.int(3_500));
      if (!trainer.alive()) break;
      const place = random.int(WORKERS);
      await workers[place]!.kill();
      startWorker(place);
      killed++;
      if (killed % 4 !== 2) continue;
      restarts++;
      const signal = restarts % 2 === 1 ? 'SIGTERM' : 'SIGKILL';
      await redis.restart({ signal, downMs: random.int(1_500) });
      say(`${killed} workers killed, Redis ended by ${signal} and started again`);
    }
    const code = await trainer.ended;
    if (code !== 0) throw new Error(`the trainer ended with ${code}:\n${trainer.said()}`);
    const counts = /^pool: .*$/m.exec(trainer.said())?.[0] ?? '';
    const number = (pattern: RegExp): number => Number(pattern.exec(counts)?.[1] ?? Number.NaN);
    return {
      workersKilled: killed,
      redisRestarts: restarts,
      endpoint: proxy.counts,
      failedAttempts: number(/(\d+) attempts failed/),
      duplicatesDropped: number(/(\d+) late duplicates/),
      forgottenByRedis: number(/(\d+) groups forgotten/),
    };
  } finally {
    for (const program of [trainer, ...workers, server]) await program?.kill();
    proxy?.close();
    await redis.stop();
  }
}

async function undisturbedRun(): Promise<void> {
  const trainer = lexpo(['train', CONFIG, ...settings('undisturbed')]);
  try {
    const code = await trainer.ended;
    if (code !== 0) throw new Error(`the undisturbed run ended with ${code}:\n${trainer.said()}`);
  } finally {
    await trainer.kill();
  }
}

const adapterBytes = (dir: string): Buffer =>
  readFileSync(join(folder, dir, 'chaos', 'adapters', `chaos-v${steps}`, 'adapter_model.safetensors'));

if (!hasRedis) {
  say('chaos needs redis-server (Debian: apt-get install redis-server)');
  process.exit(1);
}
try {
  const disturbed = await disturbedRun();
  say('the same run undisturbed, in one process');
  await undisturbedRun();
  const verdict = compareRuns(
    { steps, questions, members },
    trajectoriesOf('disturbed'),
    failuresOf('disturbed'),
    trajectoriesOf('undisturbed'),
  );
  const sameAdapter = adapterBytes('disturbed').equals(adapterBytes('undisturbed'));
  const { lost, duplicated, otherRewards } = verdict;
  const passed = lost === 0 && duplicated === 0 && otherRewards === 0;
  console.log(JSON.stringify({ passed, ...verdict, sameAdapter, ...disturbed }));
  process.exitCode = passed ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
