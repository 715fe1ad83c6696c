/** `lexpo doctor` of a configuration with a pool, on a real Redis. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ABSENT, examine, file } from '../../src/cli/test-support-doctor.ts';
import { loadConfig } from '../../src/config/load.ts';
import { setSchedule } from '../../src/trainer/retrain/schedule.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;
if (hasRedis) {
  beforeAll(async () => {
    server = await startRedis(['--requirepass', 'hunter2']);
  });
  afterAll(() => server.stop());
}
afterEach(() => {
  delete process.env.LEXPO_TEST_PASSWORD;
});

describe.skipIf(!hasRedis)('lexpo doctor with a pool', () => {
  const pool = (redis: object = {}) => ({
    ...ABSENT,
    pool: { redis: { url: server.url, passwordEnv: 'LEXPO_TEST_PASSWORD', ...redis } },
  });

  it('passes, and leaves no key and no folder behind', async () => {
    process.env.LEXPO_TEST_PASSWORD = 'hunter2';
    const { statuses, text } = await examine(pool());
    expect(statuses).toMatchObject({ redis: 'ok', results: 'ok' });
    expect(text('redis')).toMatch(/version \d+\.\d+\.\d+, keys of lexpo can be written/);
    const redis = new Redis(server.port, { password: 'hunter2' });
    expect(await redis.keys('*')).toEqual([]);
    redis.disconnect();
    expect(existsSync(file('runs'))).toBe(false);
  });

  it('tells a wrong password, without it, and a user without rights on the prefix', async () => {
    process.env.LEXPO_TEST_PASSWORD = 'hunter3';
    const wrong = await examine(pool());
    expect(wrong.statuses).toMatchObject({ redis: 'fail', results: 'ok' });
    expect(wrong.text('redis')).toMatch(/refuses user or password → .*passwordEnv/);
    expect(wrong.text('redis')).not.toContain('hunter');
    const redis = new Redis(server.port, { password: 'hunter2' });
    await redis.call('ACL', 'SETUSER', 'narrow', 'on', '>hunter3', '~other:*', '+@all');
    redis.disconnect();
    process.env.LEXPO_TEST_USER = 'narrow';
    const narrow = await examine(pool({ usernameEnv: 'LEXPO_TEST_USER' }));
    delete process.env.LEXPO_TEST_USER;
    expect(narrow.text('redis')).toMatch(/keys of lexpo cannot be written .*NOPERM.* → .*prefix/);
  });

  it('warns of a policy that throws jobs away and of no append-only file', async () => {
    const loose = await startRedis(['--maxmemory-policy', 'allkeys-lru', '--appendonly', 'no']);
    try {
      const { statuses, text } = await examine({ ...ABSENT, pool: { redis: { url: loose.url } } });
      expect(statuses.redis).toBe('warn');
      expect(text('redis')).toMatch(/allkeys-lru.*noeviction.*append-only/);
    } finally {
      await loose.stop();
    }
  });

  it('looks where schedules are kept, and says when the next job is', async () => {
    const plain = await startRedis(['--appendonly', 'yes', '--maxmemory-policy', 'noeviction']);
    const redis = new Redis(plain.port, { maxRetriesPerRequest: null });
    try {
      mkdirSync(file('inbox'));
      const retrain = { inbox: file('inbox'), registry: file('registry'), redis: { url: plain.url } };
      const before = await examine({ ...ABSENT, retrain });
      expect(before.statuses).toMatchObject({ inbox: 'ok', registry: 'ok', schedules: 'ok' });
      expect(before.text('schedules')).toContain('demo is not scheduled');
      const config = loadConfig(file('run.yaml'), { set: [] });
      await setSchedule({ redis, prefix: 'lexpo' }, config, { cron: '0 3 * * *', tz: 'UTC' });
      const { text } = await examine({ ...ABSENT, retrain });
      expect(text('schedules')).toMatch(/next job \d{4}-\d\d-\d\dT03:00:00/);
    } finally {
      redis.disconnect();
      await plain.stop();
    }
  });

  it('tells a results folder that cannot be written, and leaves what lies in it', async () => {
    process.env.LEXPO_TEST_PASSWORD = 'hunter2';
    mkdirSync(file('shared'));
    writeFileSync(file('shared/demo'), 'a file where the folder of the run would be');
    const { pool: section, ...rest } = pool();
    const blocked = await examine({ ...rest, pool: { ...section, resultsDir: file('shared') } });
    expect(blocked.statuses).toMatchObject({ redis: 'ok', results: 'fail' });
    expect(blocked.text('results')).toContain('shared/demo');
    expect(readdirSync(file('shared'))).toEqual(['demo']);
  });
});
