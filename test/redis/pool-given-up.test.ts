import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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

const group = (step: number) => ({ query: QUERIES[0]!, policy: POLICY, step, size: 4, firstMember: 0 });

describe.skipIf(!hasRedis)('groups that nobody wants any more', () => {
  it('reject before their deadline of a minute, their jobs are taken away, and the pool goes on', async () => {
    // One group is under way and one waits for its turn.
    const pool = await stage.pool({ groupsAhead: 1 });
    const stop = new AbortController();
    const given = [1, 2].map((step) => pool.rollOutGroup({ ...group(step), signal: stop.signal }));
    const ends = Promise.allSettled(given);
    const redis = new Redis(server.url);
    try {
      const jobsOf = async (step: number) => (await redis.keys(`*:s${step}-m*`)).length;
      while ((await jobsOf(1)) < 4) await sleep(5);
      stop.abort(new Error('enough'));
      for (const end of await ends) expect(end).toMatchObject({ reason: { message: 'enough' } });
      while ((await jobsOf(1)) > 0) await sleep(5);
      await stage.worker();
      const results = await pool.rollOutGroup(group(3));
      expect(results.map(({ kind }) => kind)).toEqual(['ok', 'ok', 'ok', 'ok']);
      expect(await pool.counts()).toMatchObject({ ok: 4, failed: 0 });
      expect(readdirSync(join(stage.folder, 'results'))).toEqual(['step-000003']);
      expect(await jobsOf(2)).toBe(0);
    } finally {
      redis.disconnect();
    }
  });
});
