/** Where Redis is, from a section `redis` and the environment variables that it names. */
import { readFileSync } from 'node:fs';
import { messageOf, UserError } from '../base/errors.ts';
import type { PoolConfig } from '../config/pool-schema.ts';
import type { RedisAddress } from '../rollout/pool/redis-connection.ts';

/**
 * UserError for a variable that is not set, an address that is none, or a file that cannot be read; never with a
 * secret in it.
 */
export function redisAddress(
  { redis }: Pick<PoolConfig, 'redis'>,
  env: Record<string, string | undefined> = process.env,
  section: NonNullable<RedisAddress['section']> = 'pool.redis',
): RedisAddress {
  const variable = (name: string | undefined, what: string): string | undefined => {
    if (name === undefined || env[name]) return name && env[name];
    throw new UserError('is not set', `environment variable ${name}`, `set it to ${what} of Redis`);
  };
  const url = variable(redis.urlEnv, 'the address') ?? redis.url ?? 'redis://127.0.0.1:6379';
  let parsed: URL | null = null;
  try {
    parsed = new URL(url);
  } catch {
    // Told below; the text may hold a password.
  }
  if (
    !parsed ||
    !/^rediss?:$/.test(parsed.protocol) ||
    parsed.hostname === '' ||
    !/^(\/\d*)?$/.test(parsed.pathname)
  )
    throw new UserError(
      'is no address of a Redis',
      redis.urlEnv ? `environment variable ${redis.urlEnv}` : `${section}.url`,
      'give redis://host:port/database, or rediss:// for TLS',
    );
  return {
    url,
    username: variable(redis.usernameEnv, 'the user'),
    password: variable(redis.passwordEnv, 'the password'),
    ca: redis.caFile === undefined ? undefined : authority(redis.caFile, section),
    prefix: redis.prefix,
    section,
  };
}

function authority(file: string, section: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UserError(`cannot be read (${messageOf(error)})`, file, `correct ${section}.caFile`);
  }
}
