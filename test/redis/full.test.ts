/** A Redis that is full: with `noeviction`, which is asked for, it refuses to write. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageOf } from '../../src/base/errors.ts';
import { redisError } from '../../src/rollout/pool/redis-refusal.ts';
import { createStage, POLICY, QUERIES, type Stage } from './pool-support.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;
let stage: Stage;
if (hasRedis) {
  beforeAll(async () => {
    server = await startRedis();
    stage = createStage(server.url);
  });
  afterAll(async () => {
    await stage.close();
    await server.stop();
  });
}

describe.skipIf(!hasRedis)('a full Redis', () => {
  it('ends a group at once with that, and takes the next one when it has room again', async () => {
    const redis = new Redis(server.port);
    const pool = await stage.pool();
    await stage.worker();
    const ask = (step: number) =>
      pool.rollOutGroup({ query: QUERIES[0]!, policy: POLICY, step, size: 2, firstMember: 0 });
    await ask(1);
    await redis.config('SET', 'maxmemory', '1000000');
    const error = await ask(2).catch((thrown: unknown) => thrown);
    expect(messageOf(redisError(error))).toMatch(/^Redis: is full \(OOM.*\n.*maxmemory/);
    await redis.config('SET', 'maxmemory', '0');
    expect((await ask(3)).map(({ kind }) => kind)).toEqual(['ok', 'ok']);
    redis.disconnect();
  });
});
