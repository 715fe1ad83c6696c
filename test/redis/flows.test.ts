/** What a trainer finds of one that was killed while groups were under way: they have the names of its own. */
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RolloutJob } from '../../src/rollout/pool/job.ts';
import { type Flows, openFlows } from '../../src/rollout/pool/redis-flows.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

const jobs: RolloutJob[] = [0, 1].map((member) => ({
  run: 'run',
  mark: 'mark',
  step: 3,
  queryId: 'q',
  member,
  attempt: 0,
  policy: { version: 2, model: 'm' },
  weights: 'w',
}));

describe.skipIf(!hasRedis)('flows', () => {
  let server: RedisServer;
  let open: Redis[] = [];
  let all: Flows[] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    await new Redis(server.port).flushall();
  });
  afterEach(async () => {
    await Promise.all(all.map((flows) => flows.close()));
    for (const redis of open) redis.disconnect();
    [open, all] = [[], []];
  });

  const connect = (): Redis => {
    const redis = new Redis(server.port, { maxRetriesPerRequest: null });
    open.push(redis);
    return redis;
  };
  async function start(): Promise<Flows> {
    const flows = await openFlows({
      redis: connect(),
      name: 'Redis of the test',
      prefix: 'test',
      run: 'run',
      groupsAhead: 4,
      attempts: 2,
      backoffMs: 10,
      lockMs: 1_000,
      now: () => performance.now(),
      say: () => {},
    });
    all.push(flows);
    return flows;
  }
  const begin = (flows: Flows, forMs: number) => flows.run('g', jobs, performance.now() + forMs);
  const states = async (redis: Redis) => ({
    parent: await redis.exists('test:run-groups:g'),
    waiting: await redis.zcard('test:run-groups:waiting-children'),
    done: await redis.zcard('test:run-groups:completed'),
    children: (await redis.keys('test:run-rollouts:s3-*')).length,
  });
  const untilAsked = async (redis: Redis): Promise<void> => {
    while ((await redis.zcard('test:run-groups:waiting-children')) === 0)
      await new Promise((resolve) => setTimeout(resolve, 10));
  };

  it('of a killed trainer go whole: none is taken for done, and none for ours', async () => {
    const redis = connect();
    const killed = begin(await start(), 3_000);
    await untilAsked(redis);
    expect(await states(redis)).toEqual({ parent: 1, waiting: 1, done: 0, children: 2 });
    const next = await start();
    expect(await states(redis)).toEqual({ parent: 0, waiting: 0, done: 0, children: 0 });
    const again = begin(next, 500);
    await untilAsked(redis);
    expect(await states(redis)).toEqual({ parent: 1, waiting: 1, done: 0, children: 2 });
    expect(await again).toBe('late');
    await killed;
  });

  it('that somebody else took are asked for again, not waited for', async () => {
    const redis = connect();
    const asked = begin(await start(), 60_000);
    await untilAsked(redis);
    await redis.zadd('test:run-groups:completed', 1, 'g');
    expect(await asked).toBe('lost');
  });
});
