/** One rollout as a job, and the names that it goes by. */
import { z } from 'zod';
import { sha256 } from '../../base/hash.ts';

export const jobSchema = z.strictObject({
  run: z.string(),
  /** `factsMark` of the trainer: what a worker must agree on. */
  mark: z.string(),
  step: z.number().int().min(0),
  queryId: z.string(),
  member: z.number().int().min(0),
  attempt: z.number().int().min(0),
  policy: z.strictObject({ version: z.number().int(), model: z.string() }),
  /** Hash of the policy's weights. */
  weights: z.string(),
});
export type RolloutJob = z.infer<typeof jobSchema>;

const digest = (value: unknown): string => sha256(JSON.stringify(value)).slice(0, 32);

/**
 * The job's name, and its result's: the same job has the same name in a resumed run, and one by other weights,
 * another configuration or another question has another. It holds no ':' and is no number, as BullMQ wants it.
 */
export function jobId(job: RolloutJob): string {
  const { run, mark, step, queryId, member, attempt, policy, weights } = job;
  const name = digest([run, mark, step, queryId, member, attempt, policy.version, policy.model, weights]);
  return `s${step}-m${member}-a${attempt}-${name}`;
}

/** The name of a group's parent job; `turn` tells apart the flows of one group, none of which is used twice. */
export function groupId(jobs: readonly RolloutJob[], turn: number): string {
  return `g${jobs[0]!.step}-t${turn}-${digest(jobs.map(jobId))}`;
}

/** What trainer and worker must have alike, by name: settings, versions and hashes of data. */
export type Facts = Record<string, string>;

export const factsMark = (facts: Facts): string =>
  digest(Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1)));

/** What differs, each with both values: `rollout.topK: 0 at the trainer, 5 here`. */
export function differingFacts(trainer: Facts, here: Facts): string[] {
  const names = [...new Set([...Object.keys(trainer), ...Object.keys(here)])];
  return names
    .filter((name) => trainer[name] !== here[name])
    .map((name) => `${name}: ${trainer[name] ?? 'not set'} at the trainer, ${here[name] ?? 'not set'} here`);
}

/** What the trainer tells the workers of its run, as it stands in Redis. */
export const announcementSchema = z.strictObject({
  facts: z.record(z.string(), z.string()),
  /**
   * The policy servers in rotation: each address, with or without `/v1`, and a name of its stay there. One that
   * left and came back has another, and it is gone from here before any adapter is loaded on it anew.
   */
  endpoints: z.record(z.string(), z.string()),
  /** The newest version that was asked for; null before the first step. */
  policy: z.strictObject({ version: z.number().int(), model: z.string() }).nullable(),
});
export type Announcement = z.infer<typeof announcementSchema>;
export type Servers = Readonly<Announcement['endpoints']>;

/** Names within Redis. */
export const queueNames = (run: string) => ({ rollouts: `${run}-rollouts`, groups: `${run}-groups` });
export const announcementKey = (prefix: string, run: string): string => `${prefix}:runs:${run}`;
/** A hash of counts, over the whole life of a run: `duplicates`. */
export const countsKey = (prefix: string, run: string): string => `${prefix}:counts:${run}`;
/** The number of attempts that failed within a minute; `at`: milliseconds since 1970 of any moment of it. */
export const failedKey = (prefix: string, run: string, at: number): string =>
  `${prefix}:failed:${run}:${Math.floor(at / 60_000)}`;
