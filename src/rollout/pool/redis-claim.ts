/**
 * One trainer of a run at a time on a Redis, on whatever machines they are: a key that says who, and that goes
 * by itself when its holder no longer renews it. Two would empty each other's queues.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { UserError } from '../../base/errors.ts';
import { isAlive, placeOf } from '../../base/lock-file.ts';
import { withDeadline } from './redis-connection.ts';

export interface TrainerClaim {
  /** Says that this trainer lives; takes the key anew where Redis forgot it. UserError when another one has it. */
  renew(): Promise<void>;
  release(): Promise<void>;
}

export interface ClaimOptions {
  redis: Redis;
  prefix: string;
  run: string;
  /** A holder that is silent for so long is gone, milliseconds. */
  ttlMs?: number;
  say(line: string): void;
}

const TTL_MS = 20_000;
const ANSWER_MS = 10_000;
const holderSchema = z.strictObject({
  /** Random, since two processes must never hold the same: no stream of a run's. */
  token: z.string(),
  place: z.string(),
  host: z.string(),
  pid: z.number().int(),
});
type Holder = z.infer<typeof holderSchema>;

export const trainerKey = (prefix: string, run: string): string => `${prefix}:trainer:${run}`;

/** KEYS: the key. ARGV: value, milliseconds, the value that may be replaced. What stands there afterwards. */
const TAKE = `local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] and held ~= ARGV[3] then return held end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]`;
/** KEYS: the key. ARGV: value. */
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end`;

/**
 * Takes the run for this process. One that was killed on this machine is followed at once, one elsewhere when
 * its time is over.
 *
 * @throws UserError when a living trainer has it.
 */
export async function claimTrainer({
  redis,
  prefix,
  run,
  ttlMs = TTL_MS,
  say,
}: ClaimOptions): Promise<TrainerClaim> {
  const key = trainerKey(prefix, run);
  const me: Holder = { token: randomUUID(), place: placeOf(), host: hostname(), pid: process.pid };
  const mine = JSON.stringify(me);
  const take = async (instead: string): Promise<string> =>
    String(
      await withDeadline(redis.eval(TAKE, 1, key, mine, ttlMs, instead), ANSWER_MS, 'Redis does not answer'),
    );
  const step = Math.ceil(ttlMs / 20);
  let held = await take('');
  for (let waited = 0; held !== mine && waited <= ttlMs + step; waited += step) {
    if (waited === 0 && !isGone(held)) say(`waits whether ${nameOf(held)} still trains ${run}`);
    if (!isGone(held)) await sleep(step);
    held = await take(isGone(held) ? held : '');
  }
  if (held !== mine) throw taken(held, run);
  return {
    async renew() {
      const now = await take('');
      if (now !== mine) throw taken(now, run);
    },
    async release() {
      await redis.eval(RELEASE, 1, key, mine);
    },
  };
}

const taken = (held: string, run: string): UserError =>
  new UserError(
    `is trained by ${nameOf(held)}`,
    `the run ${run} on this Redis`,
    'wait for it, or choose another run.name or pool.redis.prefix',
  );

function read(held: string): Holder | null {
  try {
    return holderSchema.parse(JSON.parse(held));
  } catch {
    return null;
  }
}

function nameOf(held: string): string {
  const holder = read(held);
  return holder ? `process ${holder.pid} on ${holder.host}` : 'another version of lexpo';
}

/** A process of this very machine that is no more. */
function isGone(held: string): boolean {
  const holder = read(held);
  return holder !== null && holder.place === placeOf() && !isAlive(holder.pid);
}
