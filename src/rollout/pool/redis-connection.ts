/** The connection to Redis: opened, checked, and what may be wrong with it told in a sentence. */
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { messageOf, UserError } from '../../base/errors.ts';
import { redisError } from './redis-refusal.ts';

export interface RedisAddress {
  /** `redis://` or `rediss://` (TLS), with or without user, password and number of the database. */
  url: string;
  username?: string | undefined;
  password?: string | undefined;
  /** PEM text of the authority that signed the server's certificate. */
  ca?: string | undefined;
  /** Starts every key. */
  prefix: string;
  /** Where it is configured, for messages; default: `pool.redis`. */
  section?: 'pool.redis' | 'retrain.redis';
}

/** What messages call it: never with user or password. */
export function addressName({ url }: RedisAddress): string {
  const { hostname, port } = new URL(url);
  return `Redis at ${hostname}:${port || 6379}`;
}

const OLDEST = [6, 2] as const;
const RETRY_MOST_MS = 1_000;

function optionsOf({ url, username, password, ca }: RedisAddress): RedisOptions {
  const at = new URL(url);
  const host = at.hostname.replace(/^\[|\]$/g, '');
  return {
    host,
    port: Number(at.port || 6379),
    db: Number(at.pathname.slice(1) || 0),
    username: username ?? (decodeURIComponent(at.username) || undefined),
    password: password ?? (decodeURIComponent(at.password) || undefined),
    ...(at.protocol === 'rediss:'
      ? { tls: { ...(isIP(host) ? {} : { servername: host }), ...(ca ? { ca } : {}) } }
      : {}),
    lazyConnect: true,
    // A command waits for the connection to come back; whoever waits for it has a deadline of its own.
    maxRetriesPerRequest: null,
    retryStrategy: (times) => Math.min(RETRY_MOST_MS, 50 * 2 ** Math.min(times, 10)),
  };
}

/**
 * Connects, within `withinMs` of trying, and checks what it finds. What is lost and found again later is told
 * through `say`; commands wait meanwhile.
 *
 * @throws UserError for a server that is not there, refuses us, or is too old.
 */
export async function openRedis(
  address: RedisAddress,
  { withinMs, say }: { withinMs: number; say(line: string): void },
): Promise<Redis> {
  const name = addressName(address);
  const { section = 'pool.redis' } = address;
  const redis = new Redis(optionsOf(address));
  let last = 'no answer';
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(
          new UserError(
            `cannot be reached for ${withinMs} ms: ${last}`,
            name,
            `start it, or correct ${section}.url (rediss:// when it wants TLS); redis-cli ping shows whether it lives`,
          ),
        );
      }, withinMs);
      redis.once('ready', () => {
        clearTimeout(timer);
        resolve();
      });
      redis.on('error', (error: Error) => {
        last = messageOf(error) || String((error as NodeJS.ErrnoException).code ?? error);
        const refusal = refusalOf(error, name, section);
        if (!refusal) return;
        clearTimeout(timer);
        reject(refusal);
      });
      // Its rejections are told by the event.
      redis.connect().catch(() => {});
    });
    await check(redis, name, say);
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  let lost = false;
  redis.on('close', () => {
    if (!lost && redis.status !== 'end') say(`${name}: the connection is lost; waiting for it`);
    lost = true;
  });
  redis.on('ready', () => {
    if (lost) say(`${name} is back`);
    lost = false;
  });
  return redis;
}

/** The sentence for a server that will not have us, however often it is asked; null for what may pass. */
function refusalOf(error: Error, name: string, section: string): UserError | null {
  const keys = `set the environment variables that ${section}.passwordEnv and usernameEnv name`;
  const message = messageOf(error);
  const code = String((error as NodeJS.ErrnoException).code ?? '');
  if (/WRONGPASS|invalid password/i.test(message))
    return new UserError('refuses user or password', name, keys);
  if (/NOAUTH|Authentication required/i.test(message)) return new UserError('wants a password', name, keys);
  if (/NOPERM/.test(message))
    return new UserError(
      `does not permit what is needed (${message})`,
      name,
      `give the user all commands on the keys of ${section}.prefix`,
    );
  if (/invalid DB index|DB index is out of range/i.test(message))
    return new UserError(
      `has no such database (${message})`,
      name,
      `correct the number at the end of ${section}.url`,
    );
  if (/CERT|SELF_SIGNED|UNABLE_TO_|^ERR_(SSL|TLS)|^EPROTO/.test(code))
    return new UserError(
      `TLS fails (${message})`,
      name,
      `give the authority of its certificate as ${section}.caFile, or redis:// when it has no TLS`,
    );
  return null;
}

async function check(redis: Redis, name: string, say: (line: string) => void): Promise<void> {
  const info = await withDeadline(redis.info(), 10_000, `${name} gives no information about itself`);
  const field = (key: string): string => new RegExp(`^${key}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const version = field('redis_version');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))
    throw new UserError(
      `is version ${version || 'unknown'}`,
      name,
      `it must be ${OLDEST.join('.')} or newer`,
    );
  const policy = field('maxmemory_policy');
  if (policy !== '' && policy !== 'noeviction')
    say(`note: ${name} has maxmemory-policy ${policy}: it may throw jobs away; set noeviction`);
  if (field('aof_enabled') === '0')
    say(`note: ${name} keeps no append-only file: when it is started again, jobs under way are made anew`);
}

/**
 * Tells what goes wrong in a part of BullMQ, once in a row. A lost connection says so itself (`openRedis`), and
 * every part would repeat it each second.
 */
export function tellErrors(
  part: { on(event: 'error', listener: (error: Error) => void): unknown },
  say: (line: string) => void,
): void {
  let last = '';
  part.on('error', (error) => {
    const line = messageOf(redisError(error));
    if (line !== last && !/ECONN|Connection is closed|Socket closed/i.test(line)) say(`note: ${line}`);
    last = line;
  });
}

/** What `promise` gives, or a UserError with `what` after `ms`. */
export async function withDeadline<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  const done = new AbortController();
  const late = sleep(ms, undefined, { signal: done.signal }).then(() => {
    throw new UserError(what, undefined, 'look at its log');
  });
  late.catch(() => {});
  promise.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    done.abort();
  }
}
