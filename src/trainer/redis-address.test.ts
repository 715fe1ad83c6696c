import { describe, expect, it } from 'vitest';
import { pool as schema } from '../config/pool-schema.ts';
import { configSchema } from '../config/schema.ts';
import { addressName } from '../rollout/pool/redis-connection.ts';
import { redisAddress } from './redis-address.ts';
import { sharedSettings } from './same-run.ts';

describe('redisAddress', () => {
  it('is the local one when nothing is said', () => {
    const address = redisAddress(schema.parse({}), {});
    expect(address).toMatchObject({ url: 'redis://127.0.0.1:6379', prefix: 'lexpo' });
    expect(address.password).toBeUndefined();
  });

  it('takes secrets from the environment, and tells none of them', () => {
    const env = { URL: 'rediss://:hunter2@redis.internal:6380/3', USER: 'lexpo', PASS: 'hunter3' };
    const redis = { urlEnv: 'URL', usernameEnv: 'USER', passwordEnv: 'PASS' };
    const address = redisAddress(schema.parse({ redis }), env);
    expect(address).toMatchObject({ url: env.URL, username: 'lexpo', password: 'hunter3' });
    expect(addressName(address)).toBe('Redis at redis.internal:6380');
  });

  it('says which variable is not set, and of a wrong address only where it stands', () => {
    const parsed = schema.parse({ redis: { passwordEnv: 'PASS' } });
    expect(() => redisAddress(parsed, {})).toThrow('environment variable PASS: is not set');
    for (const URL of ['hunter2', 'http://:hunter2@x', 'redis://:hunter2@x/db']) {
      let message = '';
      try {
        redisAddress(schema.parse({ redis: { urlEnv: 'URL' } }), { URL });
      } catch (error) {
        message = String(error);
      }
      expect(message).toContain('environment variable URL');
      expect(message).not.toContain('hunter2');
    }
    expect(() => redisAddress(schema.parse({ redis: { caFile: '/absent.pem' } }), {})).toThrow('/absent.pem');
    const nightly = schema.parse({ redis: { caFile: '/absent.pem' } });
    expect(() => redisAddress(nightly, {}, 'retrain.redis')).toThrow('correct retrain.redis.caFile');
  });
});

describe('the section pool', () => {
  it('refuses a password in the file, a prefix that would run into others, and waits without end', () => {
    for (const redis of [
      { url: 'redis://user:pass@host' },
      { url: 'http://host' },
      { prefix: 'a:b' },
      { prefix: '' },
    ])
      expect(schema.safeParse({ redis }).success).toBe(false);
    for (const wrong of [
      { groupDeadlineMs: 0 },
      { jobDeadlineMs: 1e12 },
      { attempts: 0 },
      { groupsAhead: 0 },
    ])
      expect(schema.safeParse(wrong).success).toBe(false);
    expect(schema.safeParse({ redis: { url: 'rediss://redis.internal:6380/3' } }).success).toBe(true);
  });

  it('may be added to, changed in and taken from a run that is resumed', () => {
    const config = {
      run: { name: 'r' },
      model: { path: 'm' },
      data: { corpus: 'c', train: 't', validation: 'v' },
      train: { steps: 1 },
    };
    const without = sharedSettings(configSchema.parse(config));
    expect(sharedSettings(configSchema.parse({ ...config, pool: { attempts: 7 } }))).toEqual(without);
  });
});
