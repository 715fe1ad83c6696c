/** `lexpo status` on a real Redis, with workers that work, and without any. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readPool } from '../../src/cli/status/read-pool.ts';
import { readReplicas } from '../../src/cli/status/read-replicas.ts';
import { status } from '../../src/cli/status.ts';
import { captureStreams } from '../../src/cli/test-support.ts';
import { RolloutFailure } from '../../src/rollout/rollout-failure.ts';
import { createStage, POLICY, QUERIES, type Stage } from './pool-support.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;
let stage: Stage;
if (hasRedis) {
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    stage = createStage(server.url);
  });
  afterEach(() => stage.close());
}

const waitFor = async (met: () => Promise<boolean>): Promise<void> => {
  while (!(await met())) await sleep(20);
};

describe.skipIf(!hasRedis)('the status of a pool', () => {
  it('tells queues, oldest job, workers with their jobs, and counts by the minute', async () => {
    const redis = new Redis(server.port);
    const look = (now = Date.now()) => readPool(redis, 'test', 'run', now);
    const empty = await look();
    expect(empty).toMatchObject({ trainer: null, workers: [], oldest: null, doneLastMinute: null });
    const pool = await stage.pool();
    const done = pool.rollOutGroup({ query: QUERIES[0]!, policy: POLICY, step: 1, size: 4, firstMember: 0 });
    await waitFor(async () => (await look()).rollouts.waiting === 4);
    const waiting = await look(Date.now() + 60_000);
    expect(waiting.oldest).toMatchObject({ state: 'waiting' });
    expect(waiting.oldest!.ageMs).toBeGreaterThanOrEqual(60_000);
    let release = (): void => {};
    const held = new Promise<undefined>((resolve) => {
      release = () => resolve(undefined);
    });
    await stage.worker(() => held, { concurrency: 3 });
    await waitFor(async () => (await look()).rollouts.active === 3);
    const busy = await look();
    expect(busy.rollouts).toMatchObject({ waiting: 1, active: 3, failed: 0 });
    expect(busy.workers).toHaveLength(1);
    expect(busy.workers[0]).toMatchObject({ name: `${hostname()}-${process.pid}` });
    expect(busy.workers[0]!.jobs).toHaveLength(3);
    release();
    await done;
    const after = Date.now();
    // In the minute that follows, all four were of the one before it, however the clock stood meanwhile.
    const minutes = [await look(after), await look(after + 60_000)].map(
      ({ doneLastMinute }) => doneLastMinute!,
    );
    expect(minutes[0]! + minutes[1]!).toBeGreaterThanOrEqual(4);
    expect((await look(after + 180_000)).doneLastMinute).toBe(0);
    expect(await redis.exists('test:run-rollouts:meta')).toBe(1);
    redis.disconnect();
  });
});

describe.skipIf(!hasRedis)('attempts that fail', () => {
  it('are counted in their minute though they are tried again, and the counter goes by itself', async () => {
    const redis = new Redis(server.port);
    const pool = await stage.pool();
    const before = Date.now();
    let calls = 0;
    const down = async (): Promise<undefined> => {
      if (calls++ < 3) throw new RolloutFailure('connection', 'refused');
      return undefined;
    };
    await stage.worker(down, { concurrency: 1, backoffMs: 10 });
    await pool.rollOutGroup({ query: QUERIES[0]!, policy: POLICY, step: 1, size: 2, firstMember: 0 });
    const failedAt = async (at: number) => (await readPool(redis, 'test', 'run', at)).failedLastMinute;
    // Seen from the minute that follows; they may lie on both sides of a full one.
    const seen = async () => (await failedAt(before + 60_000)) + (await failedAt(before + 120_000));
    await waitFor(async () => (await seen()) >= 3);
    expect(await failedAt(before + 600_000)).toBe(0);
    const [key] = await redis.keys('test:failed:run:*');
    expect(await redis.ttl(key!)).toBeGreaterThan(60);
    redis.disconnect();
  });
});

describe('lexpo status', () => {
  const folderOf = () => join(stageFolder(), 'runs');
  const stageFolder = () => (stage ? stage.folder : '');
  const ask = async (url: string) => {
    const file = join(stageFolder(), 'run.yaml');
    const data = { corpus: 'c', train: 't', validation: 'v' };
    const config = {
      run: { name: 'demo', dir: folderOf() },
      model: { path: 'm' },
      data,
      optimizer: { warmupSteps: 0 },
      train: { steps: 9 },
      ...(url ? { pool: { redis: { url } } } : {}),
    };
    writeFileSync(file, JSON.stringify(config));
    const { streams, said } = captureStreams();
    const code = await status(file, { set: [] }, streams);
    const json = captureStreams();
    await status(file, { set: [], json: true }, json.streams);
    return { code, ...said, found: JSON.parse(json.said.out) };
  };

  it.skipIf(!hasRedis)('works while nothing runs, and with a run folder alone', async () => {
    expect(await ask('')).toMatchObject({
      code: 0,
      err: '',
      found: { pool: null, run: { state: 'absent' } },
    });
    const root = join(folderOf(), 'demo');
    mkdirSync(join(root, 'adapters', 'demo-v3'), { recursive: true });
    writeFileSync(join(root, 'config.json'), '{}');
    writeFileSync(
      join(root, 'metrics.jsonl'),
      '{"step":3,"reward/mean":0.5,"eval/recall":0.25}\n{"step":4,"reward/mean":0.75}\n{"step":5,"rew',
    );
    const { out, found } = await ask('');
    expect(found.run).toMatchObject({ state: 'stopped', step: 4, steps: 9, adapter: 'demo-v3' });
    expect(out).toMatch(/step 4 of 9, policy demo-v3\n.*reward\/mean 0\.750 {2}eval\/recall 0\.250/);
    const pooled = await ask(server.url);
    expect(pooled).toMatchObject({ code: 0, err: '' });
    expect(pooled.out).toMatch(/trainer: none is at work[\s\S]*no worker is connected/);
  });

  it.skipIf(!hasRedis)(
    'tells in one line that Redis is down, and shows the rest',
    async () => {
      const { code, out, err, found } = await ask('redis://127.0.0.1:1');
      expect(code).toBe(1);
      expect(out).toMatch(/nothing runs/);
      expect(err).toMatch(/^lexpo: Redis at 127\.0\.0\.1:1: cannot be reached/);
      expect(found.problem).toMatch(/cannot be reached/);
    },
    15_000,
  );
});

describe('replicas', () => {
  it('answer with their adapters, or are told with the reason; the key goes along', async () => {
    const keys: unknown[] = [];
    const one = createServer((request, response) => {
      keys.push(request.headers.authorization);
      response.end(JSON.stringify({ data: [{ id: 'base' }, { id: 'run-v3' }, { id: 'other-v1' }] }));
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => one.once('listening', resolve));
    const url = `http://127.0.0.1:${(one.address() as AddressInfo).port}`;
    const [alive, dead] = await readReplicas([`${url}/v1`, 'http://127.0.0.1:1'], [url], 'run', 'k');
    one.close();
    expect(alive).toEqual({ url, inRotation: true, problem: null, adapters: ['run-v3'] });
    expect(dead).toMatchObject({
      inRotation: false,
      problem: expect.stringMatching(/ECONNREFUSED|bad port/),
    });
    expect(keys).toEqual(['Bearer k']);
  });
});
