/**
 * The trainer's side of the pool. A group is a BullMQ flow: a parent, which this process takes when all its
 * children have ended, and a child for each member that workers take. Members that failed get another flow,
 * with the next attempt's seeds, as `rollOut` does within a process.
 *
 * The files of results are what counts; Redis only says where to look. What Redis forgets (it was started
 * again with less than it had) is put there anew: the names of jobs, and so their results, stay the same.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../base/errors.ts';
import { createLimit } from '../limit.ts';
import type { PolicyVersion } from '../roll-out.ts';
import type { RolloutResult, Trajectory } from '../trajectory.ts';
import { fatalError } from './failures.ts';
import {
  type Announcement,
  announcementKey,
  countsKey,
  type Facts,
  factsMark,
  groupId,
  jobId,
  type RolloutJob,
  type Servers,
} from './job.ts';
import type { GroupRequest, RolloutPool } from './pool.ts';
import { claimTrainer } from './redis-claim.ts';
import { withDeadline } from './redis-connection.ts';
import { type FlowEnd, type FlowOptions, openFlows, wait } from './redis-flows.ts';
import { DamagedResult, readResult, referenceSchema, removeResults } from './results.ts';

/** `redis`: checked and open; closed by whoever opened it. */
export interface RedisPoolOptions extends FlowOptions {
  facts: Facts;
  resultsDir: string;
  groupDeadlineMs: number;
  /** Attempts of a member, each with other seeds. */
  maxAttempts: number;
  /** The policy servers in rotation, as in the announcement. */
  endpoints(): Servers;
  /** Hash of a policy's weights. */
  weightsOf(policy: PolicyVersion): Promise<string>;
}

export interface PoolCounts {
  /** Trajectories that were given back. */
  ok: number;
  /** Of these, found as files before anything was asked: a resumed run's. */
  reused: number;
  /** Members that were given back as failed. */
  failed: number;
  /** Failed attempts, replaced ones included. */
  failedAttempts: number;
  /** Results that came when their job had one: dropped. Null when Redis does not say. */
  duplicates: number | null;
  /** Flows that Redis forgot and that were put there again. */
  forgotten: number;
}

export interface RedisPool extends RolloutPool {
  /** Removes the files of the steps up to `step`. */
  forget(step: number): Promise<void>;
  counts(): Promise<PoolCounts>;
  /** Tells the workers which servers are in rotation; when it has ended, Redis has it. UserError when it does not. */
  announce(): Promise<void>;
  /** Takes the announcement and all jobs away. */
  close(): Promise<void>;
}

/** How one attempt of a member ended. */
type Outcome = { kind: 'ok'; trajectory: Trajectory } | { kind: 'failed'; reason: string };
/** Between two announcements. */
const LOOK_MS = 2_000;
/** What a trainer that was killed announced is no longer true: workers of the next one must not be held to it. */
const ANNOUNCED_MS = 60_000;
/** Without a worker for so long it is told. */
const LONELY_MS = 10_000;
const CLOSE_MS = 5_000;

/** Opens the run's queues, empty: what a killed trainer left is not this one's. Announces the run. UserError where another trainer has it. */
export async function openRedisPool(options: RedisPoolOptions): Promise<RedisPool> {
  const { redis, prefix, run, resultsDir, now, say } = options;
  const mark = factsMark(options.facts);
  const claim = await claimTrainer(options);
  const flows = await openFlows(options);
  const limit = createLimit(options.groupsAhead);
  const own: Omit<PoolCounts, 'duplicates'> = {
    ok: 0,
    reused: 0,
    failed: 0,
    failedAttempts: 0,
    forgotten: 0,
  };
  let policy: Announcement['policy'] = null;
  let underWay = 0;
  /** Set when another trainer has the run: nothing more is asked for. */
  let lost: UserError | null = null;

  const closed = new AbortController();
  await announceNow();
  const heart = beat();

  function announce(): Promise<unknown> {
    const announcement: Announcement = { facts: options.facts, endpoints: options.endpoints(), policy };
    return redis.set(announcementKey(prefix, run), JSON.stringify(announcement), 'PX', ANNOUNCED_MS);
  }

  async function announceNow(): Promise<void> {
    if (closed.signal.aborted) return;
    await withDeadline(announce(), 10_000, `${options.name} does not take the announcement of the run`);
  }

  async function keepClaim(): Promise<void> {
    try {
      await claim.renew();
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      if (!lost) say(error.message);
      lost = error;
    }
  }

  /** Announces again and again, since Redis may forget and replicas come and go; tells when nobody works. */
  async function beat(): Promise<void> {
    let lonely = 0;
    while (!closed.signal.aborted) {
      await sleep(LOOK_MS, undefined, { signal: closed.signal }).catch(() => {});
      if (closed.signal.aborted || redis.status !== 'ready') continue;
      try {
        await withDeadline(keepClaim(), LOOK_MS * 5, 'no answer');
        if (lost) continue;
        await withDeadline(announce(), LOOK_MS * 5, 'no answer');
        const workers = underWay === 0 ? 1 : await withDeadline(flows.workers(), LOOK_MS * 5, 'no answer');
        lonely = workers > 0 ? 0 : lonely + LOOK_MS;
        if (lonely === LONELY_MS) say(`no worker takes rollouts of ${run}: start some by lexpo worker`);
      } catch {
        // The connection says by itself that it is lost, and every group has its deadline.
      }
    }
  }

  /** What became of every job, by its id; each has exactly one outcome. */
  async function outcomesOf(
    jobs: readonly RolloutJob[],
    until: number,
    signal?: AbortSignal,
  ): Promise<Map<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    own.reused += await fromFiles(jobs, outcomes);
    for (let turn = 0; ; turn++) {
      const open = jobs.filter((job) => !outcomes.has(jobId(job)));
      if (open.length === 0) return outcomes;
      // A flow that is gone may have been taken away by a trainer that came after.
      if (turn > 0) await Promise.race([keepClaim().catch(() => {}), wait(Math.min(LOOK_MS, until - now()))]);
      if (lost) throw lost;
      const end = await flows.run(groupId(open, turn), open, until, signal);
      if (end === 'lost') own.forgotten++;
      else if (end !== 'late') await settle(open, end, outcomes);
      // A result that is there counts, whatever became of the news of it.
      await fromFiles(open, outcomes);
      if (end === 'lost') continue;
      for (const job of open.filter((job) => !outcomes.has(jobId(job))))
        outcomes.set(jobId(job), { kind: 'failed', reason: unanswered() });
      if (end === 'late') void flows.takeAway(groupId(open, turn));
      signal?.throwIfAborted();
    }
  }

  function unanswered(): string {
    const why = redis.status === 'ready' ? '' : `; ${options.name} is not reachable`;
    return `deadline: no result within ${options.groupDeadlineMs} ms (pool.groupDeadlineMs)${why}`;
  }

  /** Takes up the files that are there; gives their number. */
  async function fromFiles(jobs: readonly RolloutJob[], outcomes: Map<string, Outcome>): Promise<number> {
    let found = 0;
    for (const job of jobs) {
      if (outcomes.has(jobId(job))) continue;
      const outcome = await readOutcome(job);
      if (outcome === null) continue;
      outcomes.set(jobId(job), outcome);
      found++;
    }
    return found;
  }

  /** Null where there is no file. */
  async function readOutcome(job: RolloutJob, sha256?: string): Promise<Outcome | null> {
    try {
      const found = await readResult(resultsDir, job, sha256);
      return found && { kind: 'ok', trajectory: found.trajectory };
    } catch (error) {
      if (error instanceof DamagedResult)
        return { kind: 'failed', reason: `damaged-result: ${error.message}` };
      throw error;
    }
  }

  async function settle(
    jobs: readonly RolloutJob[],
    { values, failures }: FlowEnd,
    outcomes: Map<string, Outcome>,
  ): Promise<void> {
    for (const job of jobs) {
      const id = jobId(job);
      const failure = failures.get(id);
      if (failure !== undefined) {
        const fatal = fatalError(failure);
        if (fatal) throw fatal;
        outcomes.set(id, { kind: 'failed', reason: failure });
        continue;
      }
      const reference = referenceSchema.safeParse(values.get(id));
      const outcome = reference.success ? await readOutcome(job, reference.data.sha256) : null;
      outcomes.set(
        id,
        outcome ?? {
          kind: 'failed',
          reason: 'damaged-result: done, but there is no such file in pool.resultsDir',
        },
      );
    }
  }

  async function rollOutGroup({
    query,
    step,
    size,
    firstMember,
    signal,
    ...request
  }: GroupRequest): Promise<RolloutResult[]> {
    const until = now() + options.groupDeadlineMs;
    const weights = await options.weightsOf(request.policy);
    const { version, model } = request.policy;
    policy = { version, model };
    const results = new Map<number, Outcome>();
    const members = Array.from({ length: size }, (_, i) => firstMember + i);
    let open = members;
    for (let attempt = 0; open.length > 0; attempt++) {
      const jobs = open.map((member) => ({
        run,
        mark,
        step,
        queryId: query.id,
        member,
        attempt,
        policy: { version, model },
        weights,
      }));
      const outcomes = await outcomesOf(jobs, until, signal);
      for (const job of jobs) results.set(job.member, outcomes.get(jobId(job))!);
      const failed = open.filter((member) => results.get(member)!.kind === 'failed');
      own.failedAttempts += failed.length;
      open = attempt + 1 < options.maxAttempts && now() < until ? failed : [];
    }
    return members.map((member) => {
      const outcome = results.get(member)!;
      own[outcome.kind]++;
      return outcome.kind === 'ok' ? outcome : { ...outcome, queryId: query.id, member };
    });
  }

  return {
    rollOutGroup: (request) =>
      limit(async () => {
        request.signal?.throwIfAborted();
        underWay++;
        try {
          return await rollOutGroup(request);
        } finally {
          underWay--;
        }
      }),
    announce: announceNow,
    forget: (step) => removeResults(resultsDir, step),
    async counts() {
      const asked = redis.hget(countsKey(prefix, run), 'duplicates');
      const told = await Promise.race([asked.catch(() => undefined), wait(CLOSE_MS)]);
      return { ...own, duplicates: told === undefined ? null : Number(told) };
    },
    async close() {
      closed.abort();
      await heart;
      const goodbye = async (): Promise<void> => {
        await keepClaim();
        if (lost) return;
        await redis.del(announcementKey(prefix, run));
        await flows.clear();
        await claim.release();
      };
      // What Redis does not let us take away the next trainer does.
      if (redis.status === 'ready') await withDeadline(goodbye(), CLOSE_MS, 'no answer').catch(() => {});
      await withDeadline(flows.close(), CLOSE_MS, 'no answer').catch(() => {});
    },
  };
}
