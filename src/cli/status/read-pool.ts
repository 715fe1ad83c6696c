/** What Redis says of a run's pool: queues, workers, rates, and what the trainer announced. */
import { type Job, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import {
  type Announcement,
  announcementKey,
  announcementSchema,
  countsKey,
  failedKey,
  queueNames,
} from '../../rollout/pool/job.ts';

export interface QueueCounts {
  waiting: number;
  active: number;
  delayed: number;
  failed: number;
}

export interface WorkerStatus {
  /** Host and process id, as the worker called itself. */
  name: string;
  address: string;
  connectedSeconds: number;
  /** Since it last asked Redis for anything; a free worker asks every few seconds. */
  lastSeenSeconds: number;
  /** Names of the jobs that it has under way, at most the first `SHOWN` of the queue. */
  jobs: string[];
}

export interface PoolStatus {
  /** What the trainer announced; null: none is at work. */
  trainer: Pick<Announcement, 'endpoints' | 'policy'> | null;
  rollouts: QueueCounts;
  groups: QueueCounts;
  workers: WorkerStatus[];
  /** Rollouts that ended well in the last whole minute, by the workers' counter; null: none was counted yet. */
  doneLastMinute: number | null;
  /** Attempts that failed in the last whole minute, those that are tried again included. */
  failedLastMinute: number;
  /** Over the life of the run: results that came when their job had one. */
  duplicates: number;
  oldest: { job: string; state: keyof QueueCounts; ageMs: number } | null;
}

/** Jobs of a state that are looked at. */
const SHOWN = 1_000;
const OPEN = ['active', 'waiting', 'delayed'] as const;

/** `now`: milliseconds since 1970. */
export async function readPool(redis: Redis, prefix: string, run: string, now: number): Promise<PoolStatus> {
  const names = queueNames(run);
  const shared = { connection: redis, prefix, skipMetasUpdate: true };
  const rollouts = new Queue(names.rollouts, shared);
  const groups = new Queue(names.groups, shared);
  for (const queue of [rollouts, groups]) queue.on('error', () => {});
  try {
    const active = await rollouts.getJobs(['active'], 0, SHOWN - 1);
    return {
      trainer: await readTrainer(redis, announcementKey(prefix, run)),
      rollouts: await countsOf(rollouts),
      groups: await countsOf(groups),
      workers: await workersOf(rollouts, active),
      doneLastMinute: await doneLastMinute(rollouts, now),
      failedLastMinute: Number((await redis.get(failedKey(prefix, run, now - 60_000))) ?? 0),
      duplicates: Number((await redis.hget(countsKey(prefix, run), 'duplicates')) ?? 0),
      oldest: await oldestOf(rollouts, now),
    };
  } finally {
    await Promise.all([rollouts.close(), groups.close()]);
  }
}

async function readTrainer(redis: Redis, key: string): Promise<PoolStatus['trainer']> {
  const text = await redis.get(key);
  if (text === null) return null;
  const { endpoints, policy } = announcementSchema.parse(JSON.parse(text));
  return { endpoints, policy };
}

async function countsOf(queue: Queue): Promise<QueueCounts> {
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0, failed = 0 } = await queue.getJobCounts();
  return { waiting: waiting + prioritized, active, delayed, failed };
}

async function workersOf(queue: Queue, active: readonly Job[]): Promise<WorkerStatus[]> {
  const clients = await queue.getWorkers();
  return clients
    .map((client) => {
      const raw = client.rawname ?? '';
      const name = raw.includes(':w:') ? raw.slice(raw.indexOf(':w:') + 3) : raw;
      return {
        name,
        address: client.addr ?? '',
        connectedSeconds: Number(client.age ?? 0),
        lastSeenSeconds: Number(client.idle ?? 0),
        jobs: active.filter((job) => job?.processedBy === name).map((job) => job.id!),
      };
    })
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** The counter's newest whole minute; 0 when its newest is an older one. */
async function doneLastMinute(queue: Queue, now: number): Promise<number | null> {
  const { meta, data } = await queue.getMetrics('completed', 0, 0);
  if (meta.count === 0) return null;
  const minutes = Math.floor(now / 60_000) - Math.floor(meta.prevTS / 60_000);
  if (minutes <= 0) return data[0] ?? 0;
  // What was counted since the newest point belongs to the minute of `prevTS`, which has ended.
  return minutes === 1 ? Math.max(0, meta.count - meta.prevCount) : 0;
}

async function oldestOf(queue: Queue, now: number): Promise<PoolStatus['oldest']> {
  const perState = await Promise.all(
    OPEN.map(async (state) => {
      const jobs = await queue.getJobs([state], 0, SHOWN - 1, true);
      return jobs.filter(Boolean).map((job) => ({
        job: job.id!,
        state,
        ageMs: Math.max(0, now - job.timestamp),
      }));
    }),
  );
  return perState.flat().reduce<PoolStatus['oldest']>((a, b) => (a && a.ageMs >= b.ageMs ? a : b), null);
}
