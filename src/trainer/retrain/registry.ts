/**
 * The registry: one folder with everything that retraining keeps.
 *
 *   current.json            which champion is in use: the pointer, moved by one rename
 *   history.jsonl           one line for every job and rollback, only ever appended
 *   champions/<adapter>/    promoted adapters in PEFT layout, with champion.json; never changed
 *   sets/<hash>.jsonl       training and held-out sets by content; never changed
 *   reports/<run>/          refused.jsonl, champion.json, challenger.json of a job
 *   job.json                the job under way; gone when none is
 *   .lock, fence            who works here (`registry-lock.ts`)
 *
 * What happened is what the history says; what is in use is what the pointer says.
 */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, open, readdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { writeError, writeFileAtomic, writeFolderAtomic } from '../../base/atomic-write.ts';
import { UserError } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import { jsonLine } from '../../base/jsonl.ts';
import { problemsOf, readJsonFile } from '../../base/read-json.ts';
import type { Query } from '../../env/types.ts';
import { type HistoryRecord, historyRecord, type Job, job } from './records.ts';

export interface Registry {
  root: string;
  current: string;
  history: string;
  job: string;
  champions: string;
  sets: string;
  reports: string;
}

/** The paths of a registry, absolute. */
export function registryAt(folder: string): Registry {
  const root = resolve(folder);
  return {
    root,
    current: join(root, 'current.json'),
    history: join(root, 'history.jsonl'),
    job: join(root, 'job.json'),
    champions: join(root, 'champions'),
    sets: join(root, 'sets'),
    reports: join(root, 'reports'),
  };
}

const currentSchema = z.strictObject({
  format: z.literal(1),
  /** Name of the adapter; null after a rollback to the time before the first. */
  champion: z.string().min(1).nullable(),
  /** Its folder, relative to this file. */
  folder: z.string().nullable(),
});

/** Name of the champion in use; null for none yet. */
export function currentChampion({ current }: Registry): string | null {
  if (!existsSync(current)) return null;
  return readJsonFile(current, currentSchema, 'put the file back, or point it at a folder of champions/')
    .champion;
}

/** Moves the pointer. The champion's folder must be there. */
export async function pointAt(registry: Registry, champion: string | null): Promise<void> {
  const folder = champion === null ? null : `champions/${champion}`;
  const pointer: z.infer<typeof currentSchema> = { format: 1, champion, folder };
  await writeFileAtomic(registry.current, `${JSON.stringify(pointer, null, 2)}\n`);
}

/** Copies an adapter in as a champion, whole or not at all; one that is there already stays as it is. */
export async function keepChampion(
  registry: Registry,
  name: string,
  adapter: string,
  about: unknown,
): Promise<string> {
  const folder = join(registry.champions, name);
  if (existsSync(folder)) return folder;
  await writeFolderAtomic(folder, async (temporary) => {
    for (const file of await readdir(adapter)) await copyFile(join(adapter, file), join(temporary, file));
    await writeFile(join(temporary, 'champion.json'), `${JSON.stringify(about, null, 2)}\n`);
  });
  return folder;
}

/** The unfinished job; null when there is none. */
export function readJob(registry: Registry): Job | null {
  if (!existsSync(registry.job)) return null;
  return readJsonFile(registry.job, job, 'give the job up with lexpo retrain --fresh, or put the file back');
}

export async function writeJob(registry: Registry, state: Job): Promise<void> {
  await writeFileAtomic(registry.job, `${JSON.stringify(state, null, 2)}\n`);
}

export async function removeJob(registry: Registry): Promise<void> {
  await rm(registry.job, { force: true });
}

/**
 * The history, oldest first. A line that is not whole, left by a crash in the middle of writing it, is nobody's
 * record: what it was to say is said again by the job that goes on.
 *
 * @throws UserError for a whole line that is no record.
 */
export function readHistory(registry: Registry): HistoryRecord[] {
  if (!existsSync(registry.history)) return [];
  const lines = readFileSync(registry.history, 'utf8').split('\n');
  return lines.flatMap((line, i) => {
    if (line.trim() === '') return [];
    let json: unknown;
    try {
      json = JSON.parse(line);
    } catch {
      return [];
    }
    const parsed = historyRecord.safeParse(json);
    if (parsed.success) return [parsed.data];
    throw new UserError(
      problemsOf(parsed.error),
      `${registry.history}:${i + 1}`,
      'was it written by a newer lexpo, or by hand?',
    );
  });
}

/** Appends one record and flushes it. One write, so that two processes never mix their lines. */
export async function appendHistory(registry: Registry, record: HistoryRecord): Promise<void> {
  try {
    await mkdir(registry.root, { recursive: true });
    const handle = await open(registry.history, 'a+');
    try {
      const { size } = await handle.stat();
      const last = Buffer.alloc(1, '\n');
      if (size > 0) await handle.read(last, 0, 1, size - 1);
      // Behind a torn line the record starts a line of its own.
      await handle.appendFile(`${last.toString() === '\n' ? '' : '\n'}${jsonLine(record)}`);
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw writeError(error, registry.history);
  }
}

/**
 * Keeps a set of questions, with all that is known of each, under the hash of its bytes, and gives that hash; the same
 * questions, the same file.
 */
export async function keepSet(registry: Registry, questions: readonly Query[]): Promise<string> {
  const text = questions
    .map(({ id, query, gold, ...more }) => jsonLine({ id, query, gold, ...more }))
    .join('');
  const hash = sha256(text).slice(0, 16);
  if (!existsSync(setFile(registry, hash))) await writeFileAtomic(setFile(registry, hash), text);
  return hash;
}

export const setFile = ({ sets }: Registry, hash: string): string => join(sets, `${hash}.jsonl`);
