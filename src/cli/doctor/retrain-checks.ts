/** Checks of the section `retrain`: what a job reads, where champions are kept, and where schedules are. */
import { link, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeError } from '../../base/atomic-write.ts';
import { messageOf, UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import { openRedis, withDeadline } from '../../rollout/pool/redis-connection.ts';
import { redisAddress } from '../../trainer/redis-address.ts';
import { inboxNames } from '../../trainer/retrain/collect.ts';
import { currentChampion, readHistory, registryAt } from '../../trainer/retrain/registry.ts';
import { listSchedules } from '../../trainer/retrain/schedule.ts';
import type { Passed } from './checklist.ts';
import { makeFolder } from './endpoint-checks.ts';
import { checkRedis } from './redis-check.ts';

type Retrain = NonNullable<Config['retrain']>;

/** The folder of new pairs must be there; what is in it a job judges. */
export async function checkInbox({ inbox }: Retrain): Promise<Passed<null>> {
  const { length } = await inboxNames(inbox);
  return { value: null, detail: `${length} file${length === 1 ? '' : 's'} of pairs in ${inbox}` };
}

/** Can be read, written and locked (which takes hard links). Leaves nothing. `now` (milliseconds) names the trial. */
export async function checkRegistry({ registry }: Retrain, now: number): Promise<Passed<null>> {
  const at = registryAt(registry);
  const jobs = readHistory(at).length;
  const champion = currentChampion(at);
  const clean = await makeFolder(at.root).catch((error: unknown) => {
    throw writeError(error, at.root);
  });
  const trial = join(at.root, `.doctor-${now.toString(36)}`);
  try {
    await writeFile(trial, '', { flag: 'wx' });
    await link(trial, `${trial}-link`).catch((error: unknown) => {
      throw new UserError(
        `no hard link can be made (${messageOf(error)})`,
        at.root,
        'the lock needs them: set retrain.registry to another file system',
      );
    });
  } catch (error) {
    throw writeError(error, at.root);
  } finally {
    await rm(`${trial}-link`, { force: true });
    await rm(trial, { force: true });
    await clean();
  }
  const lines = `${jobs} line${jobs === 1 ? '' : 's'} of history`;
  return {
    value: null,
    detail: `${registry} can be written, champion ${champion ?? 'none yet'}, ${lines}`,
  };
}

/** Only `lexpo schedule` needs this Redis: without it there is a warning, and jobs by hand. */
export async function checkSchedules(retrain: Retrain, run: string, now: number): Promise<Passed<null>> {
  try {
    const address = redisAddress(retrain, process.env, 'retrain.redis');
    const { detail, warnings = [] } = await checkRedis(address, now);
    return { value: null, detail: `${detail}; ${await nextOf(address, run)}`, warnings };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const { what, where, hint } = error;
    const detail = `${where}: ${what}`;
    return {
      value: null,
      detail,
      warnings: [`${hint ?? 'correct retrain.redis'}; lexpo retrain needs no Redis, lexpo schedule does`],
    };
  }
}

const WITHIN_MS = 5_000;

async function nextOf(address: ReturnType<typeof redisAddress>, run: string): Promise<string> {
  const redis = await openRedis(address, { withinMs: WITHIN_MS, say: () => {} });
  try {
    const all = await withDeadline(
      listSchedules({ redis, prefix: address.prefix }),
      WITHIN_MS,
      'Redis does not answer in time',
    );
    const next = all.find(({ name }) => name === run)?.next;
    return next ? `next job ${next.toISOString()}` : `${run} is not scheduled`;
  } finally {
    redis.disconnect();
  }
}
