/** Checks of Redis, and of the folder that trainer and workers share. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { writeError } from '../../base/atomic-write.ts';
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import {
  addressName,
  openRedis,
  type RedisAddress,
  withDeadline,
} from '../../rollout/pool/redis-connection.ts';
import { resultsDir } from '../../trainer/pool.ts';
import type { Passed } from './checklist.ts';
import { makeFolder } from './endpoint-checks.ts';

/** Of trying to reach Redis, and of each answer. */
const WITHIN_MS = 5_000;
/** After a kill -9 the key that was written goes by itself. */
const KEY_SECONDS = 60;

type Pooled = Config & { pool: NonNullable<Config['pool']> };

/**
 * Reaches Redis as trainer and workers will, and writes, reads and removes a key under the prefix. Warns of a
 * policy that throws jobs away, and of an append-only file that is off. `now` (milliseconds) names the key.
 */
export async function checkRedis(address: RedisAddress, now: number): Promise<Passed<null>> {
  const name = addressName(address);
  const notes: string[] = [];
  const redis = await openRedis(address, { withinMs: WITHIN_MS, say: (line) => void notes.push(line) });
  const key = `${address.prefix}:doctor:${now.toString(36)}`;
  try {
    const roundTrip = async (): Promise<string | null> => {
      await redis.set(key, name, 'EX', KEY_SECONDS);
      const read = await redis.get(key);
      await redis.del(key);
      return read;
    };
    const read = await withDeadline(
      refused(roundTrip(), name, address),
      WITHIN_MS,
      `${name} does not answer`,
    );
    if (read !== name) throw new UserError(`${key} is not what was written`, name, 'look at its log');
    const version = /^redis_version:(.*?)\r?$/m.exec(await redis.info('server'))?.[1];
    return {
      value: null,
      detail: `${name}: version ${version}, keys of ${address.prefix} can be written`,
      warnings: notes.map((note) => note.replace(/^note: /, '')),
    };
  } finally {
    redis.disconnect();
  }
}

/** What Redis answers with an error to a write is the user's to mend: rights, memory, a replica, a full disk. */
async function refused<T>(
  answer: Promise<T>,
  name: string,
  { prefix, section = 'pool.redis' }: RedisAddress,
): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw new UserError(
      `keys of ${prefix} cannot be written (${(error as Error).message})`,
      name,
      `give the user all commands on the keys of ${section}.prefix; see that it has memory and is no replica`,
    );
  }
}

/** Writes a file where results go, reads it back and removes it; that other machines see the same folder only they can show. */
export async function checkResults(config: Pooled, now: number): Promise<Passed<null>> {
  const folder = resultsDir(config);
  const file = join(folder, `.doctor-${now.toString(36)}`);
  const clean = await makeFolder(folder).catch((error: unknown) => {
    throw writeError(error, folder);
  });
  try {
    const text = `${hostname()} ${now}`;
    await writeFile(file, text, { flag: 'wx' });
    if ((await readFile(file, 'utf8')) !== text)
      throw new UserError('a file is not what was written', folder, 'check the disk');
    return { value: null, detail: `${folder} can be written; run the doctor on each worker's machine too` };
  } catch (error) {
    throw writeError(error, folder);
  } finally {
    await rm(file, { force: true });
    await clean();
  }
}
