/**
 * `npm run bench:pool`: what the pool itself costs, with an endpoint that answers at once. For 1, 2 and 4 worker
 * processes: trajectories per second, CPU of trainer, workers and Redis for each agent call, Redis's memory.
 * The last line is one JSON object; the exit code is 0 only when an agent call costs less than 5 ms of CPU.
 *
 * Options: `--groups N` (120 a measurement), `--members N` (8), `--concurrency N` (16 a worker), `--rounds N` (3).
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { median } from '../src/base/statistics.ts';
import { loadConfig } from '../src/config/load.ts';
import type { Config } from '../src/config/schema.ts';
import { weightsMark } from '../src/engine/weights-mark.ts';
import { createEndpoint } from '../src/rollout/endpoint.ts';
import { openRedis } from '../src/rollout/pool/redis-connection.ts';
import { openRedisPool, type RedisPool } from '../src/rollout/pool/redis-pool.ts';
import { rollOutOnce } from '../src/rollout/roll-out.ts';
import type { Trajectory } from '../src/rollout/trajectory.ts';
import { createEnvironment } from '../src/trainer/environment.ts';
import { resultsDir, runFacts } from '../src/trainer/pool.ts';
import {
  type Data,
  loadData,
  loadModel,
  type Model,
  rolloutContext,
  trainSampling,
} from '../src/trainer/prepare.ts';
import { hasRedis, startRedis } from '../test/redis/redis-server.ts';
import { lexpo, type Program, until } from './chaos/programs.ts';
import { wholeOptions } from './whole-options.ts';

const CONFIG = 'configs/quickstart.yaml';
const POLICY = { version: 0, model: 'bench-v0' };
const MOST_CPU_MS = 5;

const { groups, members, concurrency, rounds } = wholeOptions({
  groups: 120,
  members: 8,
  concurrency: 16,
  rounds: 3,
});

interface Stub {
  url: string;
  planner: number;
  pid: number;
  spent(): Promise<{ calls: number; spentMs: number }>;
  close(): void;
}

async function startStub(model: string): Promise<Stub> {
  const file = fileURLToPath(new URL('./bench-pool/stub.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', file, model], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [url, planner] = (
    await new Promise<string>((resolve) =>
      child.stdout.once('data', (data: Buffer) => resolve(data.toString())),
    )
  )
    .trim()
    .split(' ');
  return {
    url: url!,
    planner: Number(planner),
    pid: child.pid!,
    spent: async () => (await fetch(`${url}/spent`)).json() as Promise<{ calls: number; spentMs: number }>,
    close: () => void child.kill(),
  };
}

/** CPU milliseconds that a process has used. Linux; ticks are hundredths of a second there. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

interface Measured {
  workers: number;
  perSecond: number;
  /** CPU ms for each agent call. */
  trainerCpu: number;
  workerCpu: number;
  redisCpu: number;
  /** Share of the rollouts' own time that was not within the endpoint. */
  notEndpoint: number;
}

async function rollOutAll(pool: RedisPool, data: Data, step: number): Promise<Trajectory[]> {
  const results = await Promise.all(
    Array.from({ length: groups }, (_, i) =>
      pool.rollOutGroup({
        query: data.train[i % data.train.length]!,
        policy: POLICY,
        step,
        size: members,
        firstMember: members * Math.floor(i / data.train.length),
      }),
    ),
  );
  return results.flat().map((result) => {
    if (result.kind === 'failed') throw new Error(`a rollout failed: ${result.reason}`);
    return result.trajectory;
  });
}

/** CPU of one rollout after the other within this process, and the longest time that it held the event loop. */
async function ownCost(config: Config, data: Data, model: Model, stub: Stub) {
  const endpoint = createEndpoint({ baseUrl: stub.url, deadlineMs: 10_000, maxConcurrent: 4 });
  const context = rolloutContext(config, model, createEnvironment(config, data), endpoint);
  const sampling = trainSampling(config);
  const play = async (count: number): Promise<number> => {
    let calls = 0;
    for (let i = 0; i < count; i++) {
      const id = { purpose: 'train', step: 0, member: i, attempt: 0 };
      calls += (await rollOutOnce(context, data.train[i % data.train.length]!, POLICY, sampling, id)).calls
        .length;
    }
    return calls;
  };
  await play(50);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const before = process.cpuUsage();
  const calls = await play(200);
  const { user, system } = process.cpuUsage(before);
  delay.disable();
  return { cpuMs: (user + system) / 1000 / calls, eventLoopP99Ms: delay.percentile(99) / 1e6 };
}

if (!hasRedis) {
  console.error('bench:pool needs redis-server (Debian: apt-get install redis-server)');
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'lexpo-bench-pool-'));
const stub = await startStub('models/tiny');
const server = await startRedis();
const workers: Program[] = [];
try {
  const set = [
    'run.name=bench',
    `run.dir=${folder}`,
    `rollout.maxTokens={planner: ${stub.planner}, rewriter: 64}`,
    `pool={redis: {url: "${server.url}"}}`,
  ];
  const config = loadConfig(CONFIG, { set });
  const data = await loadData(config);
  const model = loadModel(config.model.path);
  const own = await ownCost(config, data, model, stub);
  const redis = await openRedis(
    { url: server.url, prefix: 'lexpo' },
    { withinMs: 10_000, say: console.error },
  );
  const pool = await openRedisPool({
    ...config.pool!,
    redis,
    name: 'Redis',
    prefix: 'lexpo',
    run: 'bench',
    facts: runFacts(config, data, model, weightsMark(model.folder)),
    resultsDir: resultsDir(config),
    maxAttempts: 1,
    endpoints: () => ({ [stub.url]: 'stay' }),
    weightsOf: async () => 'bench',
    now: () => performance.now(),
    say: console.error,
  });
  const memory = async (): Promise<number> =>
    Number(/used_memory:(\d+)/.exec(await redis.info('memory'))![1]);
  const empty = await memory();
  const table: Measured[] = [];
  let step = 0;
  let trajectories = 0;
  for (const count of [1, 2, 4]) {
    while (workers.length < count) {
      const args = [
        'worker',
        CONFIG,
        ...set.flatMap((one) => ['--set', one]),
        '--concurrency',
        String(concurrency),
      ];
      const worker = lexpo(args);
      workers.push(worker);
      await until(worker, /takes rollouts/);
    }
    await rollOutAll(pool, data, ++step);
    const measured: Measured[] = [];
    for (let round = 0; round < rounds; round++) {
      const cpu = (): number[] => [
        process.cpuUsage().user / 1000 + process.cpuUsage().system / 1000,
        workers.reduce((sum, { pid }) => sum + cpuMs(pid), 0),
        cpuMs(server.pid()),
      ];
      const [before, spent, started] = [cpu(), await stub.spent(), performance.now()];
      const made = await rollOutAll(pool, data, ++step);
      const seconds = (performance.now() - started) / 1000;
      const [after, spentNow] = [cpu(), await stub.spent()];
      const calls = spentNow.calls - spent.calls;
      const [trainerCpu, workerCpu, redisCpu] = after.map((ms, i) => (ms - before[i]!) / calls) as [
        number,
        number,
        number,
      ];
      const wall = made.reduce((sum, { timings }) => sum + timings.rolloutMs!, 0);
      const notEndpoint = 1 - (spentNow.spentMs - spent.spentMs) / wall;
      measured.push({
        workers: count,
        perSecond: made.length / seconds,
        trainerCpu,
        workerCpu,
        redisCpu,
        notEndpoint,
      });
      trajectories += made.length;
    }
    const middle = (of: (m: Measured) => number): number => median(measured.map(of));
    table.push({
      workers: count,
      perSecond: middle((m) => m.perSecond),
      trainerCpu: middle((m) => m.trainerCpu),
      workerCpu: middle((m) => m.workerCpu),
      redisCpu: middle((m) => m.redisCpu),
      notEndpoint: middle((m) => m.notEndpoint),
    });
  }
  const full = await memory();
  const kept = (await redis.keys('lexpo:bench-rollouts:s*')).length;
  await pool.close();
  redis.disconnect();
  const show = (value: number): string => value.toFixed(2);
  console.log(
    "| workers | trajectories/s | CPU ms a call: trainer | workers | Redis | sum | not the endpoint's time |",
  );
  console.log('| ---: | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const row of table) {
    const sum = row.trainerCpu + row.workerCpu + row.redisCpu;
    console.log(
      `| ${row.workers} | ${row.perSecond.toFixed(1)} | ${show(row.trainerCpu)} | ${show(row.workerCpu)} | ${show(row.redisCpu)} | ${show(sum)} | ${(100 * row.notEndpoint).toFixed(1)} % |`,
    );
  }
  const worst = Math.max(...table.map((row) => row.trainerCpu + row.workerCpu + row.redisCpu));
  const passed = worst < MOST_CPU_MS;
  console.log(
    JSON.stringify({
      passed,
      cpuMsPerCall: worst,
      ownCpuMsPerCall: own.cpuMs,
      eventLoopP99Ms: own.eventLoopP99Ms,
      redisBytesBefore: empty,
      redisBytesAfter: full,
      trajectories,
      jobsKept: kept,
      redisBytesPerKeptTrajectory: Math.round((full - empty) / Math.max(1, kept)),
      table,
    }),
  );
  process.exitCode = passed ? 0 : 1;
} finally {
  for (const worker of workers) await worker.kill();
  stub.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
