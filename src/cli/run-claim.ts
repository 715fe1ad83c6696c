/** Who may write into a run folder: one process at a time, and never over an earlier run unasked. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { isTemporary, writeError } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { HEARTBEAT_MS, isAlive, openHeartbeat, placeOf, STALE_MS, silenceOf } from '../base/lock-file.ts';

export interface ClaimOptions {
  resume: boolean;
  fresh: boolean;
  /** A file that is no part of the run, wherever it lies: the log that is being written. */
  log?: string | undefined;
}

export interface RunClaim {
  /** There is something that `resume` goes on with. */
  earlier: boolean;
  /**
   * Removes what is not to stay: the earlier run under `fresh`, and what a killed process had half written.
   * To be called when everything that the user gave has proved readable, and not before.
   */
  begin(): void;
  /** Frees the folder; one that was made for the claim and still holds nothing of a run goes. */
  release(): void;
}

const LOCK = '.lock';

/** Who works in the run folder, such as `process 123`, or `process 123 on <host>`; null for nobody. */
export const runHolder = (root: string): string | null => holderOf(join(root, LOCK));

/**
 * Takes the run folder `root`, making it where it is absent, for this process alone.
 *
 * A folder that already holds something needs `resume`, or `fresh`, which removes the content, and does so
 * only where `config.json` shows that it is a run of ours. With `resume` an absent or empty folder is taken too:
 * what starts again whatever ends (a container, a service) gives it always. A folder in use by a living process is
 * refused, and so is one of another machine, or container, until it has been silent for a minute.
 */
export function claimRun(root: string, options: ClaimOptions): RunClaim {
  if (options.resume && options.fresh)
    throw new UserError('--resume and --fresh exclude each other', root, 'give one of them');
  const holder = runHolder(root);
  if (holder !== null) throw inUse(root, holder);
  checkContent(root, options);
  const release = lock(root, options);
  try {
    // Another process may have come and gone since.
    checkContent(root, options);
    const earlier = options.resume && contentOf(root, options.log).length > 0;
    return { earlier, begin: () => clean(root, options), release };
  } catch (error) {
    release();
    throw error;
  }
}

const inUse = (root: string, holder: string): UserError =>
  new UserError(
    `is in use by ${holder}`,
    root,
    `wait for it, or choose another run.name; if it was killed on another machine, wait a minute, or remove ${join(root, LOCK)}`,
  );

function checkContent(root: string, { resume, fresh, log }: ClaimOptions): void {
  const content = contentOf(root, log);
  if (content.length > 0 && !resume && !fresh)
    throw new UserError(
      'holds an earlier run',
      root,
      'go on with it by --resume, start anew by --fresh (removes it), or choose another run.name',
    );
  if (content.length > 0 && fresh && !isRun(root))
    throw new UserError(
      'is not empty and holds no run of lexpo (no config.json of one): --fresh removes nothing there',
      root,
      'choose another run.name or run.dir, or remove the folder yourself',
    );
}

/**
 * What is in the folder besides our own lock, the log, half-written files, and what a killed `lexpo doctor` or a
 * start that failed left.
 */
function contentOf(root: string, log?: string): string[] {
  const away = log === undefined ? null : resolve(log);
  const isLog = (path: string): boolean =>
    away !== null &&
    (path === away ||
      (away.startsWith(`${path}${sep}`) && readdirSync(path).every((name) => isLog(join(path, name)))));
  try {
    return readdirSync(root).filter(
      (name) =>
        !name.startsWith(LOCK) &&
        !isTemporary(name) &&
        !isLeftByDoctor(root, name) &&
        !isLog(join(resolve(root), name)),
    );
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    if (code === 'ENOTDIR') throw new UserError('is a file, not a folder', root, 'choose another run.name');
    throw writeError(error, root);
  }
}

/** A folder in which only the check's own adapters and files lie: no run began there. */
function isLeftByDoctor(root: string, name: string): boolean {
  const ours = {
    adapters: new RegExp(`^${basename(root)}-(doctor-[0-9a-z]+-v0|probe-[0-9a-f]{8})$`),
    results: /^\.doctor-/,
  }[name];
  if (!ours || !statSync(join(root, name)).isDirectory()) return false;
  return readdirSync(join(root, name)).every((inner) => isTemporary(inner) || ours.test(inner));
}

/** Its config.json is one that a run wrote. */
function isRun(root: string): boolean {
  try {
    const config = JSON.parse(readFileSync(join(root, 'config.json'), 'utf8')) as Record<string, unknown>;
    return ['run', 'model', 'data', 'rollout', 'train'].every((key) => typeof config[key] === 'object');
  } catch {
    return false;
  }
}

function clean(root: string, { fresh, log }: ClaimOptions): void {
  try {
    const names = readdirSync(root, { recursive: true, encoding: 'utf8' });
    const half = names.filter((name) => isTemporary(basename(name)));
    // What says that the folder is ours goes last: a removal that is cut off can be repeated.
    const whole = fresh
      ? [...contentOf(root, log).filter((name) => name !== 'config.json'), 'config.json']
      : [];
    for (const name of [...half, ...whole]) rmSync(join(root, name), { recursive: true, force: true });
  } catch (error) {
    throw writeError(error, root);
  }
}

function lock(root: string, { log }: ClaimOptions): () => void {
  const path = join(root, LOCK);
  let made: string | undefined;
  try {
    made = mkdirSync(root, { recursive: true });
    while (!create(path)) {
      const holder = holderOf(path);
      if (holder !== null) throw inUse(root, holder);
      takeAway(path);
    }
  } catch (error) {
    throw writeError(error, root);
  }
  const heart = openHeartbeat(path, content());
  // A file system that is away for a moment: the next one tells.
  const timer = setInterval(() => heart.beat().catch(() => {}), HEARTBEAT_MS).unref();
  return () => {
    clearInterval(timer);
    heart.close();
    if (made !== undefined) removeUnused(root, log);
    // Somebody may have taken it while this process was asleep.
    if (existsSync(path) && readFileSync(path, 'utf8') === content()) rmSync(path, { force: true });
    if (made === undefined || readdirSync(root).length > 0) return;
    rmdirSync(root);
  };
}

/** What a start that failed left in a folder that it made, where there is no run in it. */
function removeUnused(root: string, log: string | undefined): void {
  if (contentOf(root, log).length > 0) return;
  for (const name of readdirSync(root))
    if (isTemporary(name) || isLeftByDoctor(root, name)) rmSync(join(root, name), { recursive: true });
}

/** What our lock says: the process, and where its number means that. */
const content = (): string => `${process.pid}\n${placeOf()}\n`;

/** Makes the lock; false when there is one. */
function create(path: string): boolean {
  try {
    writeFileSync(path, content(), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Moves an abandoned lock out of the way; one that another process has just put in its place goes back. */
function takeAway(path: string): void {
  const aside = `${path}.${process.pid}`;
  try {
    renameSync(path, aside);
    if (holderOf(aside) !== null) renameSync(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  rmSync(aside, { force: true });
}

/** Who holds the lock; null for nobody, or a process that ended without freeing it. */
function holderOf(path: string): string | null {
  if (!existsSync(path)) return null;
  const text = readFileSync(path, 'utf8');
  // It is there before its number is: somebody takes it just now.
  if (text === '') return Date.now() - statSync(path).mtimeMs < 5000 ? 'another process' : null;
  const [number, place = placeOf()] = text.trimEnd().split('\n');
  const pid = Number(number);
  if (!Number.isInteger(pid) || pid < 1) return null;
  if (place !== placeOf()) {
    const silence = silenceOf(path, String(process.pid));
    return silence === null || silence > STALE_MS ? null : `process ${pid} on ${place.split(' ')[0]}`;
  }
  return pid !== process.pid && isAlive(pid) ? `process ${pid}` : null;
}
