/**
 * One job at a time in a registry, over processes, machines and restarts: a lock file with a heartbeat, and a
 * fence.
 *
 * The lock counts as abandoned when its holder ran on this very machine (same host, boot and process space) and
 * its process is gone, or when its heartbeat stopped a minute ago, both times read off the registry's own file
 * system so that clocks of machines need not agree. The fence is a number that only rises: a holder that was
 * taken for dead (asleep, cut off) and comes back finds a higher one, and writes nothing any more. Between that
 * look and the write lies an instant that no file system closes; a minute's silence comes before it.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { writeError, writeFileAtomic } from '../../base/atomic-write.ts';
import { messageOf, UserError } from '../../base/errors.ts';
import { HEARTBEAT_MS, isAlive, openHeartbeat, placeOf, STALE_MS, silenceOf } from '../../base/lock-file.ts';

export interface RegistryLock {
  fence: number;
  /** Fires when the lock is lost: the job has to stop at the next whole point. */
  lost: AbortSignal;
  /** Throws a UserError unless the lock is still ours: to be called before everything that is to count. */
  check(): void;
  release(): void;
}

export interface LockOptions {
  /** At least this fence, as another lock gave it; a registry that has seen a higher one is not taken. */
  fence?: number | undefined;
  /** How long to wait for it. */
  patienceMs?: number | undefined;
  heartbeatMs?: number;
  /** Silence after which a holder counts as dead. */
  staleMs?: number;
}

const holderSchema = z.strictObject({
  /** Random, since two processes must never hold the same: no stream of a run's. */
  token: z.string(),
  place: z.string(),
  host: z.string(),
  pid: z.number().int(),
  since: z.string(),
});
type Holder = z.infer<typeof holderSchema>;

const LOOK_MS = 500;
/** Patience that outlasts a holder which died on another machine. */
export const PAST_THE_DEAD_MS = STALE_MS + 4 * HEARTBEAT_MS;

/** The highest fence that the registry has seen; 0 for none. */
export function lastFence(root: string): number {
  const file = join(root, 'fence');
  if (!existsSync(file)) return 0;
  const fence = Number(readFileSync(file, 'utf8'));
  if (Number.isSafeInteger(fence) && fence >= 0) return fence;
  throw new UserError('is no whole number', file, 'write 0 into it, when no job is at work');
}

/**
 * Takes the lock of the registry `root`, making the folder; `now` is what the lock file says of when. Gives who
 * holds it (`host, process 12`) when it is not free.
 */
export async function lockRegistry(
  root: string,
  now: Date,
  options: LockOptions = {},
): Promise<RegistryLock | { heldBy: string }> {
  const { heartbeatMs = HEARTBEAT_MS, staleMs = STALE_MS, patienceMs = 0 } = options;
  const path = join(root, '.lock');
  const me: Holder = {
    token: randomUUID(),
    place: placeOf(),
    host: hostname(),
    pid: process.pid,
    since: now.toISOString(),
  };
  try {
    mkdirSync(root, { recursive: true });
    for (let waited = 0; !(await create(path, me)); ) {
      const holder = readHolder(path);
      if (holder === null) continue;
      if (isDead(holder) || isSilent(path, me.token, staleMs)) takeAway(path, holder, me.token);
      else if (waited >= patienceMs) return { heldBy: nameOf(holder) };
      else {
        await sleep(LOOK_MS);
        waited += LOOK_MS;
      }
    }
    const seen = lastFence(root);
    const fence = options.fence ?? seen + 1;
    if (fence <= seen) {
      rmSync(path, { force: true });
      return { heldBy: `a later job (fence ${seen}, this one has ${fence})` };
    }
    await writeFileAtomic(join(root, 'fence'), `${fence}\n`);
    return hold(root, path, me, fence, heartbeatMs);
  } catch (error) {
    throw writeError(error, root);
  }
}

/** Who works in the registry now; null: nobody, as far as this machine can tell. Writes nothing. */
export function registryHolder(root: string): string | null {
  const holder = readHolder(join(root, '.lock'));
  return holder === null || isDead(holder) ? null : nameOf(holder);
}

function hold(root: string, path: string, me: Holder, fence: number, heartbeatMs: number): RegistryLock {
  const controller = new AbortController();
  const isOurs = (): boolean => readHolder(path)?.token === me.token && lastFence(root) === fence;
  const heart = openHeartbeat(path, JSON.stringify(me));
  const beat = async (): Promise<void> => {
    try {
      if (!isOurs()) throw new UserError('was taken by another process', path);
      await heart.beat();
    } catch (error) {
      // A file system that is away for a moment is not a lost lock: the next beat tells.
      if (error instanceof UserError) controller.abort(error);
    }
  };
  const timer = setInterval(beat, heartbeatMs);
  timer.unref();
  return {
    fence,
    lost: controller.signal,
    check() {
      if (controller.signal.aborted || !isOurs())
        throw new UserError(
          'another process took the registry while this one was silent',
          root,
          'nothing more is written; the other one goes on with the job',
        );
    },
    release() {
      clearInterval(timer);
      heart.close();
      if (readHolder(path)?.token === me.token) rmSync(path, { force: true });
    },
  };
}

/** Makes the lock with its content in one step; false when there is one. */
async function create(path: string, me: Holder): Promise<boolean> {
  const draft = `${path}.${me.token}`;
  await writeFile(draft, JSON.stringify(me));
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Null when there is no lock. */
function readHolder(path: string): Holder | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    return holderSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new UserError(
      `is no lock file (${messageOf(error).split('\n')[0]})`,
      path,
      'remove it, when no job is at work',
    );
  }
}

const nameOf = ({ host, pid, since }: Holder): string => `process ${pid} on ${host} since ${since}`;

const isDead = ({ place, pid }: Holder): boolean => place === placeOf() && !isAlive(pid);

/** Whether the heartbeat stopped. */
const isSilent = (path: string, token: string, staleMs: number): boolean =>
  (silenceOf(path, token) ?? 0) > staleMs;

/** Moves an abandoned lock out of the way; one that another process has just put in its place goes back. */
function takeAway(path: string, abandoned: Holder, token: string): void {
  const aside = `${path}.${token}.aside`;
  try {
    renameSync(path, aside);
    if (readHolder(aside)?.token !== abandoned.token) linkSync(aside, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'EEXIST') throw error;
  }
  rmSync(aside, { force: true });
}
