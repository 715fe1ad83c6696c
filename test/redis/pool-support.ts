/** For the tests of the pool: a trainer's side and workers over the table policy, on a real Redis. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inProcessPool } from '../../src/rollout/pool/pool.ts';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import { openRedisPool, type RedisPool, type RedisPoolOptions } from '../../src/rollout/pool/redis-pool.ts';
import { type WorkerOptions, work } from '../../src/rollout/pool/redis-worker.ts';
import { type RolloutContext, rollOutOnce, type Sampling } from '../../src/rollout/roll-out.ts';
import type { RolloutResult } from '../../src/rollout/trajectory.ts';
import { BASE_MODEL, tableModel } from '../../src/trainer/test-support.ts';
import { createTableEndpoint, tableContext, tableQuery } from '../../src/trainer/test-support-rollout.ts';

export const POLICY = { version: 0, model: BASE_MODEL };
export const FACTS = { 'lexpo version': '1', 'rollout.topK': '0' };
export const SAMPLING: Sampling = {
  temperature: 1,
  maxTokens: { planner: 4, rewriter: 4, lawyer: 64 },
  maxAttempts: 2,
};
export const QUERIES = Array.from({ length: 6 }, (_, i) => tableQuery(i, 7));

/** What a rollout meets before each call; it may wait or throw. */
export type Script = Parameters<typeof createTableEndpoint>[1];
export const contextOf = (script?: Script): RolloutContext =>
  tableContext(createTableEndpoint(tableModel(8), script), { runId: 'run' });

/** What a worker does with a job. */
export const performWith =
  (context: RolloutContext): WorkerOptions['perform'] =>
  ({ queryId, policy, step, member, attempt }, signal) => {
    const query = QUERIES.find(({ id }) => id === queryId)!;
    return rollOutOnce(context, query, policy, SAMPLING, { purpose: 'train', step, member, attempt }, signal);
  };

/** Without what a clock says. */
export const timeless = (results: RolloutResult[]): unknown[] =>
  results.map((r) => (r.kind === 'ok' ? { ...r.trajectory, timings: {} } : r));

/** The groups of a step as one process rolls them out, undisturbed. */
export const undisturbed = async (step: number, size: number): Promise<unknown[][]> =>
  (await groupsBy(inProcessPool(contextOf(), SAMPLING), step, size)).map(timeless);

export const groupsBy = (
  pool: Pick<RedisPool, 'rollOutGroup'>,
  step: number,
  size: number,
): Promise<RolloutResult[][]> =>
  Promise.all(
    QUERIES.map((query) => pool.rollOutGroup({ query, policy: POLICY, step, size, firstMember: 0 })),
  );

export interface Stage {
  folder: string;
  said: string[];
  pool(change?: Partial<RedisPoolOptions>): Promise<RedisPool>;
  /** A worker within this process; `stop` asks it to leave. */
  worker(script?: Script, change?: Partial<WorkerOptions>): Promise<{ stop(): void; done: Promise<number> }>;
  /** Stops all that was started. */
  close(): Promise<void>;
}

export function createStage(url: string): Stage {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-pool-'));
  const said: string[] = [];
  const say = (line: string): void => void said.push(line);
  const ends: (() => Promise<unknown>)[] = [];
  const address = { url, prefix: 'test' };
  const connect = async () => {
    const redis = await openRedis(address, { withinMs: 10_000, say });
    ends.unshift(async () => redis.disconnect());
    return redis;
  };
  return {
    folder,
    said,
    async pool(change = {}) {
      const pool = await openRedisPool({
        redis: await connect(),
        name: 'Redis of the test',
        prefix: 'test',
        run: 'run',
        facts: FACTS,
        resultsDir: join(folder, 'results'),
        groupsAhead: 64,
        groupDeadlineMs: 60_000,
        attempts: 5,
        backoffMs: 10,
        lockMs: 1_000,
        maxAttempts: SAMPLING.maxAttempts,
        endpoints: () => ({ 'http://127.0.0.1:1': 'stay' }),
        weightsOf: async () => 'weights',
        now: () => performance.now(),
        say,
        ...change,
      });
      ends.unshift(() => pool.close());
      return pool;
    },
    async worker(script, change = {}) {
      const controller = new AbortController();
      const done = work({
        redis: await connect(),
        prefix: 'test',
        run: 'run',
        facts: FACTS,
        resultsDir: join(folder, 'results'),
        concurrency: 8,
        jobDeadlineMs: 30_000,
        backoffMs: 10,
        lockMs: 1_000,
        drainMs: 5_000,
        useEndpoints: () => {},
        perform: performWith(contextOf(script)),
        signal: controller.signal,
        say,
        ...change,
      });
      done.catch(() => {});
      const stop = (): void => controller.abort();
      ends.unshift(async () => {
        stop();
        await done.catch(() => {});
      });
      return { stop, done };
    },
    async close() {
      for (const end of ends) await end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
