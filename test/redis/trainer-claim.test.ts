/** Two trainers of one run on one Redis. */
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { placeOf } from '../../src/base/lock-file.ts';
import { announcementKey } from '../../src/rollout/pool/job.ts';
import { claimTrainer, type TrainerClaim, trainerKey } from '../../src/rollout/pool/redis-claim.ts';
import { createStage, POLICY, QUERIES, type Stage } from './pool-support.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

const KEY = trainerKey('test', 'run');

describe.skipIf(!hasRedis)('a run', () => {
  let server: RedisServer;
  let redis: Redis;
  let stage: Stage;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    await redis.flushall();
    stage = createStage(server.url);
  });
  afterEach(() => stage.close());

  const take = (ttlMs: number): Promise<TrainerClaim> =>
    claimTrainer({ redis, prefix: 'test', run: 'run', ttlMs, say: () => {} });
  const holder = (change: object): string =>
    JSON.stringify({ token: 'other', place: 'far boot', host: 'far', pid: process.pid, ...change });

  it('is announced for a minute at a time: what a killed trainer said does not hold workers of the next one', async () => {
    const pool = await stage.pool();
    const left = await redis.pttl(announcementKey('test', 'run'));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
    await redis.pexpire(announcementKey('test', 'run'), 1_000);
    await pool.announce();
    expect(await redis.pttl(announcementKey('test', 'run'))).toBeGreaterThan(1_000);
  });

  it('has one trainer, who keeps it while he says so, and leaves it free', async () => {
    const first = await take(400);
    const beat = setInterval(() => void first.renew(), 50);
    await expect(take(400)).rejects.toThrow(/is trained by process \d+ on /);
    clearInterval(beat);
    await first.release();
    expect(await redis.exists(KEY)).toBe(0);
    const second = await take(60_000);
    await expect(first.renew()).rejects.toThrow(/is trained by/);
    await first.release();
    await second.renew();
    await redis.del(KEY);
    await second.renew();
    expect(await redis.exists(KEY)).toBe(1);
  });

  it('of many that come at once exactly one gets it', async () => {
    const beats: NodeJS.Timeout[] = [];
    const all = await Promise.allSettled(
      Array.from({ length: 10 }, async () => {
        const claim = await take(400);
        beats.push(setInterval(() => void claim.renew(), 50));
      }),
    );
    for (const beat of beats) clearInterval(beat);
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('whose trainer died elsewhere is free when his time is over, and at once when he died here', async () => {
    await redis.set(KEY, holder({}), 'PX', 300);
    await take(300);
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    await redis.set(KEY, holder({ place: placeOf(), pid }), 'PX', 3_600_000);
    await take(3_600_000);
  });

  it('is not emptied by a second trainer, and one that lost it asks for nothing more', async () => {
    const pool = await stage.pool();
    let calls = 0;
    await stage.worker(async () => {
      calls++;
      await sleep(20);
      return undefined;
    });
    const group = (step: number) => ({ query: QUERIES[0]!, policy: POLICY, step, size: 2, firstMember: 0 });
    expect(await pool.rollOutGroup(group(1))).toHaveLength(2);
    await redis.set(KEY, holder({}), 'PX', 3_600_000);
    while (!stage.said.some((line) => /is trained by process \d+ on far/.test(line))) await sleep(50);
    const before = calls;
    await expect(pool.rollOutGroup(group(2))).rejects.toThrow(/is trained by/);
    expect(calls).toBe(before);
    const keys = await redis.keys('test:run-rollouts:*');
    await pool.close();
    expect(await redis.keys('test:run-rollouts:*')).toEqual(expect.arrayContaining(keys));
    expect(await redis.get(KEY)).toBe(holder({}));
  });
});
