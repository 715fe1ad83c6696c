/**
 * Retraining by the clock: BullMQ's job schedulers on Redis, one for each configuration by its `run.name`, and
 * the process that does their jobs. What is scheduled is the resolved configuration as it was then.
 */
import { resolve } from 'node:path';
import { DelayedError, type Job, Queue, UnrecoverableError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { messageOf, UserError } from '../../base/errors.ts';
import { shortHash } from '../../base/hash.ts';
import { problemsOf } from '../../base/read-json.ts';
import { type Config, configSchema } from '../../config/schema.ts';
import { tellErrors } from '../../rollout/pool/redis-connection.ts';
import { takeRedisLock } from './redis-lock.ts';
import { lastFence, PAST_THE_DEAD_MS } from './registry-lock.ts';
import { retrain, skip } from './retrain.ts';
import { withRetrain } from './run-config.ts';
import type { RetrainEnd, RetrainTools } from './work.ts';

/** A connection, with what starts every key. */
export interface ScheduleStore {
  redis: Redis;
  prefix: string;
}

const QUEUE = 'retrain';
const JOB = 'retrain';
/** Jobs that Redis remembers after their end; the history has all of them. */
const KEEP = { removeOnComplete: { count: 100 }, removeOnFail: { count: 100 } };

interface Data {
  config: Config;
}

async function withQueue<T>({ redis, prefix }: ScheduleStore, use: (queue: Queue<Data>) => Promise<T>) {
  const queue = new Queue<Data>(QUEUE, { connection: redis, prefix });
  // Told by the connection itself.
  queue.on('error', () => {});
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}

/**
 * Sets the schedule of the configuration's name, in place of an earlier one: `cron` with five fields, or six with
 * seconds first, in the time zone `tz`. Gives the time of the first job.
 *
 * @throws UserError for a pattern or a time zone that is none.
 */
export async function setSchedule(
  store: ScheduleStore,
  config: Config,
  { cron, tz }: { cron: string; tz: string },
): Promise<Date> {
  withRetrain(config);
  try {
    new Intl.DateTimeFormat('en', { timeZone: tz });
  } catch {
    throw new UserError(`${tz} is no time zone`, '--tz', 'give a name such as UTC or Europe/Berlin');
  }
  const fields = cron.trim().split(/\s+/);
  const hint = 'give five fields, such as "0 3 * * *" for every night at three, or six with seconds first';
  if (fields.length < 5 || fields.length > 6)
    throw new UserError(`"${cron}" has ${fields.length} fields`, '--cron', hint);
  return withQueue(store, async (queue) => {
    const template = { name: JOB, data: { config }, opts: KEEP };
    try {
      await queue.upsertJobScheduler(config.run.name, { pattern: cron, tz }, template);
      return new Date((await queue.getJobScheduler(config.run.name))!.next!);
    } catch (error) {
      if (!/cron|field|constraint|character|invalid|pattern|value/i.test(messageOf(error))) throw error;
      throw new UserError(`"${cron}" is no pattern (${messageOf(error)})`, '--cron', hint);
    }
  });
}

export interface Schedule {
  name: string;
  cron: string;
  tz: string;
  next: Date | null;
  registry: string;
}

/** Every schedule, by name. */
export async function listSchedules(store: ScheduleStore): Promise<Schedule[]> {
  const found = await withQueue(store, (queue) => queue.getJobSchedulers());
  const schedules = found.map(({ key, pattern, tz, next, template }) => ({
    name: key,
    cron: pattern ?? '',
    tz: tz ?? 'UTC',
    next: next === undefined ? null : new Date(next),
    registry: (template?.data as Data | undefined)?.config.retrain?.registry ?? '',
  }));
  return schedules.sort((a, b) => a.name.localeCompare(b.name));
}

/** UserError when there is none of that name. */
export async function removeSchedule(store: ScheduleStore, name: string): Promise<void> {
  const removed = await withQueue(store, (queue) => queue.removeJobScheduler(name));
  if (!removed) throw new UserError('has no schedule', name, 'see lexpo schedule <config> --list');
}

/** Asks for one job beside the schedule, as soon as a worker is free. */
export async function runNow(store: ScheduleStore, config: Config): Promise<void> {
  withRetrain(config);
  await withQueue(store, (queue) => queue.add(JOB, { config }, KEEP));
}

export interface WorkOptions extends ScheduleStore {
  tools: RetrainTools;
  /** Fires when the worker is to leave: its job stops at the next whole point, for another worker. */
  signal: AbortSignal;
  /** Told what every job came to. */
  onEnd(end: RetrainEnd): void;
  /** Without a sign of life for so long a worker counts as dead, and its job goes to another one. */
  lockMs?: number;
}

const LOCK_MS = 30_000;
/** A worker that died with its job may have been ended by it; not for ever. */
const DEATHS = 10;

/** Does the jobs of every schedule on this Redis, one at a time, until the signal fires. */
export async function workSchedules(options: WorkOptions): Promise<void> {
  const { redis, prefix, signal, lockMs = LOCK_MS, tools } = options;
  const worker = new Worker<Data, { kind: string; run?: string | undefined; why?: string }>(
    QUEUE,
    async (job, token) => {
      const end = await perform(job, options, lockMs);
      if (end.kind === 'ended') {
        options.onEnd(end);
        const { kind, run, why } = end.record;
        return { kind, run, why };
      }
      await job.moveToDelayed(Date.now() + 1000, token);
      throw new DelayedError();
    },
    {
      connection: redis,
      prefix,
      concurrency: 1,
      lockDuration: lockMs,
      stalledInterval: lockMs,
      maxStalledCount: DEATHS,
    },
  );
  tellErrors(worker, tools.log);
  worker.on('failed', (_, error) => tools.log(`the job failed: ${messageOf(error)}`));
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  // Waits for the job under way, which ends at its next whole point by the same signal.
  await worker.close();
}

async function perform(job: Job<Data>, options: WorkOptions, lockMs: number): Promise<RetrainEnd> {
  const { redis, prefix, tools, signal } = options;
  const parsed = configSchema.safeParse(job.data.config);
  if (!parsed.success)
    throw new UnrecoverableError(
      `it was scheduled by another version of lexpo: schedule it again (${problemsOf(parsed.error)})`,
    );
  const config = withRetrain(parsed.data);
  const root = resolve(config.retrain.registry);
  const lock = await takeRedisLock(redis, `${prefix}:retrain-lock:${shortHash(root)}`, {
    leastFence: lastFence(root) + 1,
    ttlMs: lockMs,
    signal,
  }).catch((error: unknown) => {
    if (signal.aborted) return 'interrupted' as const;
    throw error;
  });
  if (lock === 'interrupted') return { kind: 'interrupted' };
  const about = { config, trigger: 'schedule' as const };
  if (lock === null) return skip(about, tools, 'another scheduled job is at work');
  try {
    const { fence, lost } = lock;
    return await retrain(
      {
        ...about,
        fresh: false,
        fence,
        patienceMs: job.stalledCounter > 0 ? PAST_THE_DEAD_MS : 0,
        signal: AbortSignal.any([signal, lost]),
      },
      tools,
    );
  } finally {
    await lock.release();
  }
}
