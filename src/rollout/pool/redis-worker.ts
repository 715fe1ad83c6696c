/**
 * The worker's side of the pool: takes jobs of one run from Redis, rolls out, leaves the result as a file and
 * its reference with the job. At least once: a job whose worker died is taken up by another one, and the first
 * result stays.
 */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Job, UnrecoverableError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import { RolloutFailure } from '../rollout-failure.ts';
import type { Trajectory } from '../trajectory.ts';
import { jobFailure } from './failures.ts';
import {
  type Announcement,
  announcementKey,
  announcementSchema,
  countsKey,
  differingFacts,
  type Facts,
  factsMark,
  failedKey,
  jobSchema,
  queueNames,
  type RolloutJob,
  type Servers,
} from './job.ts';
import { tellErrors, withDeadline } from './redis-connection.ts';
import { DamagedResult, type ResultReference, readResult, resultPath, writeResult } from './results.ts';

export interface WorkerOptions {
  redis: Redis;
  prefix: string;
  run: string;
  /** What this worker has; compared with the trainer's before any work is taken. */
  facts: Facts;
  resultsDir: string;
  concurrency: number;
  jobDeadlineMs: number;
  /** Before the second attempt of a job; doubled for each further one. */
  backoffMs: number;
  lockMs: number;
  /** From the signal on: what the rollouts under way get before they are cancelled. */
  drainMs: number;
  /** Told the servers in rotation before the first job, and again and again. */
  useEndpoints(servers: Servers): void;
  /** One rollout. */
  perform(job: RolloutJob, signal: AbortSignal): Promise<Trajectory>;
  /** Fires when the worker is to leave. */
  signal: AbortSignal;
  say(line: string): void;
}

/** How often the trainer's announcement is read. */
const LOOK_MS = 1_000;
/** After cancelling, what a job gets to end and say so. */
const CANCEL_MS = 5_000;

/**
 * Works until the signal fires; gives the number of jobs done.
 *
 * @throws UserError when the trainer has another configuration, other data or another version: no work is
 *   taken, or what is under way is finished and no more taken.
 */
export async function work(options: WorkerOptions): Promise<number> {
  const { redis, prefix, run, facts, signal, say } = options;
  const read = (): Promise<Announcement | null> => readAnnouncement(redis, prefix, run);
  const announced = await firstAnnouncement(read, options);
  if (announced === null) return 0;
  checkFacts(announced, facts, run);
  options.useEndpoints(announced.endpoints);
  let done = 0;
  const worker = startWorker(options);
  worker.on('completed', () => void done++);
  worker.on('failed', () => void countFailed(options).catch(() => {}));
  say(`takes rollouts of ${run}`);
  let mismatch: UserError | null = null;
  while (!signal.aborted && mismatch === null) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) break;
    try {
      // While Redis is away the look waits, and the signal must not wait with it.
      const now = await withDeadline(read(), 10 * LOOK_MS, 'no answer');
      if (now === null) continue;
      checkFacts(now, facts, run);
      options.useEndpoints(now.endpoints);
    } catch (error) {
      if (error instanceof UserError && error.where === WHERE) mismatch = error;
    }
  }
  await drain(worker, options);
  if (mismatch) throw mismatch;
  return done;
}

/** Waits for the trainer; null when the signal fires first. */
async function firstAnnouncement(
  read: () => Promise<Announcement | null>,
  { run, signal, say }: WorkerOptions,
): Promise<Announcement | null> {
  const left = sleep(2 ** 31 - 1, null, { signal, ref: false }).catch(() => null);
  for (let told = false; !signal.aborted; told = true) {
    const found = await Promise.race([read(), left]);
    if (found !== null || signal.aborted) return found;
    if (!told) say(`waits for the trainer of ${run}`);
    await Promise.race([sleep(LOOK_MS), left]);
  }
  return null;
}

/** What the trainer of a run announces now; null: no trainer is at work. UserError for what cannot be read. */
export async function readAnnouncement(
  redis: Redis,
  prefix: string,
  run: string,
): Promise<Announcement | null> {
  const key = announcementKey(prefix, run);
  const text = await redis.get(key);
  if (text === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  const parsed = announcementSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new UserError(
    'is no announcement of this version of lexpo',
    WHERE,
    `give trainer and workers the same version, or another pool.redis.prefix (key ${key})`,
  );
}

const WHERE = 'the announcement of the run';
/** More would hide the first. */
const SHOWN = 3;

function checkFacts(announced: Announcement, facts: Facts, run: string): void {
  const differing = differingFacts(announced.facts, facts);
  if (differing.length === 0) return;
  const more = differing.length > SHOWN ? `; and ${differing.length - SHOWN} more` : '';
  throw new UserError(
    `${run} is trained with ${differing.slice(0, SHOWN).join('; ')}${more}`,
    WHERE,
    'give the worker the configuration, the data and the version of the trainer',
  );
}

function startWorker(options: WorkerOptions): Worker {
  const { redis, prefix, run, facts, concurrency, lockMs, say } = options;
  const mark = factsMark(facts);
  const worker = new Worker<RolloutJob, ResultReference>(
    queueNames(run).rollouts,
    (job, _token, signal) => runJob(job, mark, signal!, options),
    {
      connection: redis,
      prefix,
      concurrency,
      // Host and process, as `lexpo status` shows them; and counts by the minute, for its rates.
      name: `${hostname()}-${process.pid}`,
      metrics: { maxDataPoints: 60 },
      lockDuration: lockMs,
      stalledInterval: lockMs,
      // What kills every worker that takes it must end.
      maxStalledCount: 10,
      settings: { backoffStrategy: (made, _type, _error, job) => backoff(options.backoffMs, made, job?.id) },
    },
  );
  tellErrors(worker, say);
  return worker;
}

/** As long as `lexpo status` may ask for it, and longer. */
const FAILED_SECONDS = 300;

/** BullMQ counts a job that failed for good; most that fail are tried again, and that is what is to be seen. */
async function countFailed({ redis, prefix, run }: WorkerOptions): Promise<void> {
  const key = failedKey(prefix, run, Date.now());
  await redis.multi().incr(key).expire(key, FAILED_SECONDS).exec();
}

const BACKOFF_MOST_MS = 30_000;

/** Before attempt `made + 1`: doubled each time, spread by half, the same for the same job. */
export function backoff(firstMs: number, made: number, id = ''): number {
  const whole = Math.min(BACKOFF_MOST_MS, firstMs * 2 ** Math.min(made - 1, 30));
  return Math.round(whole * (1 - 0.5 * stream(0, 'backoff', id, made).next()));
}

async function runJob(
  { data }: Job<RolloutJob>,
  mark: string,
  cancelled: AbortSignal,
  options: WorkerOptions,
): Promise<ResultReference> {
  const { resultsDir, run, jobDeadlineMs, perform, redis, prefix } = options;
  const parsed = jobSchema.safeParse(data);
  if (!parsed.success || parsed.data.run !== run)
    throw new UnrecoverableError('invalid-job: its data are not those of a rollout of this run');
  const job = parsed.data;
  if (job.mark !== mark)
    throw new UnrecoverableError(`config-mismatch: the job is for ${job.mark}, this worker has ${mark}`);
  try {
    const found = await readResult(resultsDir, job);
    if (found) return found.reference;
    const late = AbortSignal.timeout(jobDeadlineMs);
    const signal = AbortSignal.any([late, cancelled]);
    const trajectory = await beforeAbort(perform(job, signal), signal, () =>
      late.aborted
        ? new RolloutFailure('deadline', `no result within ${jobDeadlineMs} ms (pool.jobDeadlineMs)`)
        : new RolloutFailure('cancelled', 'the worker ended'),
    );
    const { first } = await writeResult(resultsDir, job, trajectory);
    if (!first) await redis.hincrby(countsKey(prefix, run), 'duplicates', 1);
    const kept = await readResult(resultsDir, job);
    // A link that leads nowhere, or a step whose results the trainer has removed meanwhile.
    if (!kept) throw new DamagedResult(`${resultPath(job)}: is not there after it was written`);
    return kept.reference;
  } catch (error) {
    if (error instanceof DamagedResult) throw new UnrecoverableError(`damaged-result: ${error.message}`);
    const { mayHeal, text } = jobFailure(error);
    throw mayHeal ? new Error(text) : new UnrecoverableError(text);
  }
}

/** What `promise` gives; `failure` as soon as the signal fires. */
async function beforeAbort<T>(promise: Promise<T>, signal: AbortSignal, failure: () => Error): Promise<T> {
  promise.catch(() => {});
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(failure());
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  aborted.catch(() => {});
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Takes no more, lets what is under way end, and cancels what does not: others take that up. */
async function drain(worker: Worker, { drainMs, say }: WorkerOptions): Promise<void> {
  const closing = worker.close();
  const ended = (ms: number): Promise<boolean> =>
    Promise.race([closing.then(() => true), sleep(ms, false, { ref: false })]);
  if (await ended(drainMs)) return;
  say(`rollouts are still under way after ${drainMs} ms: they are cancelled`);
  worker.cancelAllJobs('the worker ended');
  await ended(CANCEL_MS);
}
