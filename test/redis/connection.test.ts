import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../../src/base/errors.ts';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;
if (hasRedis) {
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
}

describe.skipIf(!hasRedis)('what is wrong with Redis', () => {
  const open = (url: string, more = {}) => {
    const said: string[] = [];
    const opened = openRedis(
      { url, prefix: 'p', ...more },
      { withinMs: 700, say: (line) => void said.push(line) },
    );
    return opened.then(
      (redis) => {
        redis.disconnect();
        return said;
      },
      (error: unknown) => error as UserError,
    );
  };

  it('is told in a sentence: nobody there, no TLS there, no such database', async () => {
    const nobody = (await open('redis://127.0.0.1:1')) as UserError;
    expect(nobody).toBeInstanceOf(UserError);
    expect(nobody.message).toMatch(/Redis at 127.0.0.1:1: cannot be reached for 700 ms: .*ECONNREFUSED/);
    const tls = (await open(server.url.replace('redis:', 'rediss:'))) as UserError;
    expect(tls).toBeInstanceOf(UserError);
    expect(tls.message).toMatch(/TLS/);
    const database = (await open(`${server.url}/999`)) as UserError;
    expect(database.message).toMatch(/no such database/);
  });

  it('passwords: none given, a wrong one, the right one; none of them in a message', async () => {
    const locked = await startRedis(['--requirepass', 'hunter2', '--maxmemory-policy', 'allkeys-lru']);
    try {
      const none = (await open(locked.url)) as UserError;
      expect(none.message).toMatch(/wants a password/);
      const wrong = (await open(locked.url, { password: 'hunter3' })) as UserError;
      expect(wrong.message).toMatch(/refuses user or password/);
      expect(wrong.message).not.toContain('hunter');
      const notes = await open(locked.url.replace('redis://', 'redis://:hunter2@'));
      expect(notes).toEqual([expect.stringMatching(/maxmemory-policy allkeys-lru.*noeviction/)]);
    } finally {
      await locked.stop();
    }
  });
});
