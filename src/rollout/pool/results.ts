/**
 * Results as files, since Redis carries references only: `<folder>/step-000012/<job>.json`, two lines: the
 * job's name with the SHA-256 of the second line, and the trajectory. A file appears whole, under its name, at
 * once, and the first one stays: a job that ran twice has one result.
 */
import { link, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { writeError } from '../../base/atomic-write.ts';
import { messageOf } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import { type Trajectory, trajectorySchema } from '../trajectory.ts';
import { jobId, type RolloutJob } from './job.ts';

/** What goes through Redis: the path below the results' folder, and the hash of the trajectory's line. */
export const referenceSchema = z.strictObject({ path: z.string(), sha256: z.string() });
export type ResultReference = z.infer<typeof referenceSchema>;

/** A file that is not what it should be: torn, changed, or another job's. */
export class DamagedResult extends Error {
  override name = 'DamagedResult';
}

const headSchema = z.strictObject({ job: z.string(), sha256: z.string() });
const stepFolder = (step: number): string => `step-${String(step).padStart(6, '0')}`;
export const resultPath = (job: RolloutJob): string => join(stepFolder(job.step), `${jobId(job)}.json`);

let written = 0;

/** Writes a result unless there is one; `first`: this one was. UserError for what the file system refuses. */
export async function writeResult(
  folder: string,
  job: RolloutJob,
  trajectory: Trajectory,
): Promise<{ first: boolean }> {
  const path = join(folder, resultPath(job));
  const body = JSON.stringify(trajectory);
  const temporary = join(dirname(path), `.${jobId(job)}.tmp-${process.pid}-${written++}`);
  try {
    await mkdir(dirname(path), { recursive: true });
  } catch (error) {
    throw writeError(error, dirname(path));
  }
  try {
    const file = await open(temporary, 'w');
    try {
      await file.writeFile(`${JSON.stringify({ job: jobId(job), sha256: sha256(body) })}\n${body}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    // A rename would put the last one in place.
    await link(temporary, path);
    return { first: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return { first: false };
    throw writeError(error, path);
  } finally {
    await rm(temporary, { force: true });
  }
}

/**
 * The result of a job; null where there is none. `expected`: the hash that it must have, else the file's own.
 * @throws DamagedResult
 */
export async function readResult(
  folder: string,
  job: RolloutJob,
  expected?: string,
): Promise<{ trajectory: Trajectory; reference: ResultReference } | null> {
  const path = join(folder, resultPath(job));
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new DamagedResult(`${path}: ${messageOf(error)}`);
  }
  const fail = (what: string): never => {
    throw new DamagedResult(`${path}: ${what}`);
  };
  const [head = '', body = '', end, ...more] = text.split('\n');
  if (end !== '' || more.length > 0) fail('is torn');
  const { job: name, sha256: own } = parse(headSchema, head) ?? fail('its first line is no head of a result');
  if (name !== jobId(job)) fail(`is the result of ${name}`);
  if (sha256(body) !== own || (expected !== undefined && own !== expected)) fail('its SHA-256 is another');
  const trajectory = parse(trajectorySchema, body) ?? fail('holds no trajectory');
  const { run, step, queryId, member, policy } = job;
  const about = [trajectory.runId, trajectory.step, trajectory.queryId, trajectory.member];
  const version = [trajectory.policyVersion, trajectory.adapter];
  const wanted = [run, step, queryId, member, policy.version, policy.model];
  if (JSON.stringify([...about, ...version]) !== JSON.stringify(wanted))
    fail('holds the trajectory of another rollout');
  return { trajectory, reference: { path: resultPath(job), sha256: own } };
}

function parse<T>(schema: z.ZodType<T>, text: string): T | null {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Removes the results of the steps up to `step`: what they held has been written down elsewhere. */
export async function removeResults(folder: string, step: number): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names) {
    const found = /^step-(\d{6,})$/.exec(name);
    if (found && Number(found[1]) <= step) await rm(join(folder, name), { recursive: true, force: true });
  }
}
