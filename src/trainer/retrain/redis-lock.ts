/**
 * A lock in Redis with a fence: a key that expires unless it is renewed, and a number that rises with every
 * holder. It keeps scheduled jobs apart before they touch the registry, whose own lock holds for all others too
 * and refuses a holder that comes with an outdated fence.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { UserError } from '../../base/errors.ts';

export interface RedisLock {
  fence: number;
  /** Fires when the lock was lost: Redis was away for longer than it lasts, or somebody removed it. */
  lost: AbortSignal;
  release(): Promise<void>;
}

/** KEYS: lock, fence. ARGV: token, milliseconds, least fence. The fence, or nothing when another one holds it. */
const TAKE = `
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return nil end
local fence = math.max(redis.call('incr', KEYS[2]), tonumber(ARGV[3]))
redis.call('set', KEYS[2], string.format('%d', fence))
return fence`;
/** KEYS: lock. ARGV: token, milliseconds. */
const RENEW = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`;
const RELEASE = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`;

/**
 * Takes the lock `key`, with a fence of at least `leastFence`. A holder that died keeps it for `ttlMs`, so that
 * long is waited for it; null when it is held by one that lives.
 */
export async function takeRedisLock(
  redis: Redis,
  key: string,
  { leastFence, ttlMs, signal }: { leastFence: number; ttlMs: number; signal: AbortSignal },
): Promise<RedisLock | null> {
  // Random, since two processes must never hold the same: no stream of a run's.
  const token = randomUUID();
  const step = Math.ceil(ttlMs / 10);
  for (let waited = 0; ; waited += step) {
    const fence = (await redis.eval(TAKE, 2, key, `${key}:fence`, token, ttlMs, leastFence)) as number | null;
    if (fence !== null) return keep(redis, key, token, fence, ttlMs);
    if (waited > ttlMs) return null;
    await sleep(step, undefined, { signal });
  }
}

function keep(redis: Redis, key: string, token: string, fence: number, ttlMs: number): RedisLock {
  const controller = new AbortController();
  const lose = (): void => {
    clearInterval(timer);
    controller.abort(new UserError('was lost', `lock ${key}`, 'the job stops; the next one goes on with it'));
  };
  let heldUntil = performance.now() + ttlMs;
  let asking = false;
  const renew = async (): Promise<void> => {
    // While Redis is away a renewal waits for it; by the clock here the lock is over all the same.
    if (performance.now() > heldUntil) return lose();
    if (asking) return;
    asking = true;
    const asked = performance.now();
    try {
      if ((await redis.eval(RENEW, 1, key, token, ttlMs)) === 1) heldUntil = asked + ttlMs;
      else lose();
    } catch {
      // The next one tries again, until the time is over.
    } finally {
      asking = false;
    }
  };
  const timer = setInterval(renew, Math.ceil(ttlMs / 4));
  return {
    fence,
    lost: controller.signal,
    async release() {
      clearInterval(timer);
      if (!controller.signal.aborted && redis.status === 'ready') await redis.eval(RELEASE, 1, key, token);
    },
  };
}
