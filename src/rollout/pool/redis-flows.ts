/** The flows of a run in Redis: a parent that this process takes, and a child for each rollout. */
import { setTimeout as sleep } from 'node:timers/promises';
import { FlowProducer, type Job, Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { jobId, queueNames, type RolloutJob } from './job.ts';
import { tellErrors, withDeadline } from './redis-connection.ts';

export interface FlowOptions {
  redis: Redis;
  /** What messages call it. */
  name: string;
  prefix: string;
  run: string;
  groupsAhead: number;
  /** Tries of a job with the same seeds. */
  attempts: number;
  backoffMs: number;
  lockMs: number;
  /** Milliseconds, monotonic. */
  now(): number;
  say(line: string): void;
}

/** What the parent of a flow knows when its children have ended: by job id. */
export interface FlowEnd {
  values: Map<string, unknown>;
  failures: Map<string, string>;
}

export interface Flows {
  /** The end of a flow; `lost` when Redis no longer knows it, `late` at the time `until`, or when `signal` fires. */
  run(
    id: string,
    jobs: readonly RolloutJob[],
    until: number,
    signal?: AbortSignal,
  ): Promise<FlowEnd | 'lost' | 'late'>;
  /** Removes a flow that nobody waits for any more. */
  takeAway(id: string): Promise<void>;
  /** Workers that are connected. */
  workers(): Promise<number>;
  /** Empties the queues. */
  clear(): Promise<void>;
  close(): Promise<unknown>;
}

/** Between two looks whether Redis still knows a flow. */
const LOOK_MS = 2_000;
/** Kept for looking at them; the results are elsewhere. */
const KEEP = { removeOnComplete: { age: 600, count: 500 }, removeOnFail: { age: 3_600, count: 500 } };

/** Nothing, after `ms` or when `signal` fires. */
export const wait = (ms: number, signal?: AbortSignal): Promise<undefined> =>
  sleep(Math.max(0, ms), undefined, { ref: false, ...(signal && { signal }) }).catch(() => undefined);

/** Opens the run's queues, empty: what a killed trainer left is not this one's. */
export async function openFlows(options: FlowOptions): Promise<Flows> {
  const { redis, prefix, run, now, say } = options;
  const names = queueNames(run);
  const shared = { connection: redis, prefix };
  const rollouts = new Queue(names.rollouts, shared);
  const groups = new Queue(names.groups, shared);
  const flows = new FlowProducer(shared);
  const waiting = new Map<string, (end: FlowEnd) => void>();
  for (const part of [rollouts, groups, flows]) tellErrors(part, say);
  await withDeadline(clear(), 60_000, `${options.name} does not clear the queues of an earlier trainer`);
  const parents = new Worker(names.groups, takeParent, {
    ...shared,
    concurrency: options.groupsAhead,
    lockDuration: options.lockMs,
    stalledInterval: options.lockMs,
    maxStalledCount: 1_000,
  });
  tellErrors(parents, say);

  /**
   * Children first: a parent that loses them is taken for one that is done. And BullMQ's obliterate leaves parents
   * that wait for children. One of a killed trainer would pass for ours, which has the same name.
   */
  async function clear(): Promise<void> {
    for (const queue of [rollouts, groups]) await queue.obliterate({ force: true });
    const left = await groups.getWaitingChildren();
    await Promise.all(left.map(({ id }) => groups.remove(id!)));
  }

  /** The parent of a flow: all its children have ended. Of a flow that nobody waits for there is nothing to do. */
  async function takeParent(job: Job): Promise<null> {
    const tell = waiting.get(job.id!);
    if (!tell) return null;
    const byId = <T>(found: Record<string, T>): Map<string, T> =>
      new Map(Object.entries(found).map(([key, value]) => [key.slice(key.lastIndexOf(':') + 1), value]));
    tell({
      values: byId(await job.getChildrenValues()),
      failures: byId(await job.getIgnoredChildrenFailures()),
    });
    return null;
  }

  function addFlow(id: string, jobs: readonly RolloutJob[]): Promise<unknown> {
    const { attempts, backoffMs } = options;
    return flows.add({
      name: 'group',
      queueName: names.groups,
      data: {},
      opts: { jobId: id, ...KEEP },
      children: jobs.map((job) => ({
        name: 'rollout',
        queueName: names.rollouts,
        data: job,
        opts: {
          jobId: jobId(job),
          ignoreDependencyOnFailure: true,
          attempts,
          backoff: { type: 'custom', delay: backoffMs },
          ...KEEP,
        },
      })),
    });
  }

  async function runFlow(
    id: string,
    jobs: readonly RolloutJob[],
    until: number,
    signal?: AbortSignal,
  ): Promise<FlowEnd | 'lost' | 'late'> {
    const left = (): number => (signal?.aborted ? 0 : until - now());
    const told = new Promise<FlowEnd>((resolve) => waiting.set(id, resolve));
    const added = addFlow(id, jobs);
    added.catch(() => {});
    try {
      const start = await Promise.race([added.then(() => 'added' as const), wait(left(), signal)]);
      if (start !== 'added') return 'late';
      for (;;) {
        const end = await Promise.race([told, wait(Math.min(LOOK_MS, left()), signal)]);
        if (end) return end;
        if (left() <= 0) return 'late';
        if (redis.status !== 'ready') continue;
        const known = await Promise.race([
          redis.exists(`${prefix}:${names.groups}:${id}`),
          wait(left(), signal),
        ]);
        if (known === 0) return 'lost';
        const finished = await Promise.race([
          redis.zscore(`${prefix}:${names.groups}:completed`, id),
          wait(left(), signal),
        ]);
        // Another process took it: nobody will tell us any more.
        if (finished) return await Promise.race([told, wait(0).then(() => 'lost' as const)]);
      }
    } finally {
      waiting.delete(id);
    }
  }

  async function takeAway(id: string): Promise<void> {
    try {
      await groups.remove(id, { removeChildren: true });
    } catch {
      // A child that is under way stays; its result will find nobody.
    }
  }

  return {
    run: runFlow,
    takeAway,
    workers: () => rollouts.getWorkersCount(),
    clear,
    close: () => Promise.all([parents.close(true), rollouts.close(), groups.close(), flows.close()]),
  };
}
