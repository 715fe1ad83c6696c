/**
 * Files and folders that are there whole or not at all, also after a crash or on a full disk: everything is
 * written under a temporary name beside the target, flushed, and renamed; then the parent folder is
 * flushed, so that the new name survives a power cut. A name that starts with `.` and contains `.tmp-` is
 * such a temporary; one left by a killed process is nobody's data.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { UserError } from './errors.ts';

type Content = string | Uint8Array | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/**
 * Writes `content` (chunks one after the other) to `path`; its folder is made where it is absent. A reader
 * sees the old file or the whole new one. What the file system refuses (full, read-only, not permitted) is
 * a `UserError` that names `path`, and nothing is left behind.
 */
export function writeFileAtomic(path: string, content: Content): Promise<void> {
  return writeFilesAtomic([[path, content]]);
}

/**
 * As `writeFileAtomic`, for files that belong together: the first gets its name when all are written and flushed, so
 * that an error in any of the contents, or a full disk, leaves every old file as it was. A crash between two of the
 * renames leaves the first ones new.
 */
export async function writeFilesAtomic(files: readonly (readonly [path: string, Content])[]): Promise<void> {
  const written: { path: string; temporary: string }[] = [];
  let at = '';
  try {
    for (const [path, content] of files) {
      at = path;
      await mkdir(dirname(path), { recursive: true });
      const { name, value } = await claim(path, (free) => open(free, 'wx'));
      written.push({ path, temporary: name });
      await fillFile(value, content);
    }
    for (const { path, temporary } of written) {
      at = path;
      await rename(temporary, path);
      await sync(dirname(path));
    }
  } catch (error) {
    for (const { temporary } of written) await rm(temporary, { force: true });
    throw writeError(error, at);
  }
}

/** As `writeFileAtomic`, at once, into a folder that is there; its new name is flushed with the folder. */
export function writeFileAtomicSync(path: string, chunks: Iterable<Uint8Array>): void {
  const temporary = temporaryName(path);
  let fd: number | undefined;
  try {
    fd = openSync(temporary, 'wx');
    for (const chunk of chunks)
      for (let done = 0; done < chunk.length; )
        // One call writes less than 2 GiB.
        done += writeSync(fd, chunk, done, Math.min(chunk.length - done, 1 << 30));
    fsyncSync(fd);
    closeSync(fd);
    fd = undefined;
    renameSync(temporary, path);
    fd = openSync(dirname(path), 'r');
    fsyncSync(fd);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw writeError(error, path);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Makes the folder `path`, filled by `fill`, which gets a temporary folder to write into. A folder of that
 * name must not exist, unless `replace` is set: then the old one is moved aside first and removed at the
 * end (a crash in between leaves one of the two). On any error nothing new is left behind.
 */
export async function writeFolderAtomic(
  path: string,
  fill: (folder: string) => Promise<void>,
  options: { replace?: boolean } = {},
): Promise<void> {
  const parent = dirname(path);
  let temporary: string | undefined;
  try {
    await mkdir(parent, { recursive: true });
    temporary = (await claim(path, (name) => mkdir(name))).name;
    await fill(temporary);
    await syncTree(temporary);
    const old = options.replace ? await takePlace(temporary, path) : [];
    if (!options.replace) await rename(temporary, path);
    await sync(parent);
    for (const folder of old) await rm(folder, { recursive: true, force: true });
  } catch (error) {
    if (temporary) await rm(temporary, { recursive: true, force: true });
    throw writeError(temporary ? renamed(error, temporary, path) : error, path);
  }
}

/** A mistake about something inside `temporary` is told by the name that it would have had. */
function renamed(error: unknown, temporary: string, path: string): unknown {
  if (!(error instanceof UserError && error.where?.startsWith(temporary))) return error;
  return new UserError(error.what, path + error.where.slice(temporary.length), error.hint);
}

/** Flushes a file, or the names in a folder. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const REASONS: Record<string, [what: string, hint: string]> = {
  ENOSPC: ['the disk is full', 'free some space; nothing was half-written'],
  EDQUOT: ['the disk quota is used up', 'free some space; nothing was half-written'],
  EFBIG: ['the file is larger than the system allows', 'raise the limit (ulimit -f)'],
  EROFS: ['the file system is read-only', 'choose another folder'],
  EACCES: ['may not be written', 'check the permissions, or choose another folder'],
  EPERM: ['may not be written', 'check the permissions, or choose another folder'],
  ENOTDIR: ['a part of the path is a file, not a folder', 'choose another path'],
  EISDIR: ['is a folder, not a file', 'choose another path'],
  EEXIST: ['exists already', 'remove it, or choose another path'],
  ENOTEMPTY: ['exists already', 'remove it, or choose another path'],
  ENOENT: ['cannot be made there', 'check that the folder above it exists and may be written'],
  ENAMETOOLONG: ['the path is too long', 'choose a shorter one'],
  ELOOP: ['its links lead round in a circle', 'choose another path'],
  EIO: ['the disk failed', 'check the disk, or choose another one'],
  EMFILE: ['too many files are open', 'raise the limit (ulimit -n)'],
  ENFILE: ['too many files are open', 'close other programs'],
};

/** A `UserError` for what the file system refuses about `path`; any other error is given back as it is. */
export function writeError(error: unknown, path: string): unknown {
  const reason = REASONS[(error as NodeJS.ErrnoException | null)?.code ?? ''];
  return reason ? new UserError(reason[0], path, reason[1]) : error;
}

/** Whether a file or folder of this name is one that is being written, or was when its process was killed. */
export const isTemporary = (name: string): boolean => /^\..+\.tmp-\d+-\d+$/.test(name);

let claims = 0;
const temporaryName = (path: string): string =>
  join(dirname(path), `.${basename(path)}.tmp-${process.pid}-${claims++}`);

/** Takes a temporary name beside `path` that no other process holds: `make` fails with EEXIST if one does. */
async function claim<T>(
  path: string,
  make: (name: string) => Promise<T>,
): Promise<{ name: string; value: T }> {
  for (;;) {
    const name = temporaryName(path);
    try {
      return { name, value: await make(name) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

async function fillFile(handle: FileHandle, content: Content): Promise<void> {
  try {
    const chunks = typeof content === 'string' || content instanceof Uint8Array ? [content] : content;
    for await (const chunk of chunks) await handle.appendFile(chunk);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Flushes every file and folder below `folder`, and itself. */
async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else if (entry.isFile()) await sync(path);
  }
  await sync(folder);
}

/**
 * Renames `temporary` to `path` and gives back the temporary names of what was there: more than one where
 * others put theirs there in the meantime. On an error what was there last is there again.
 */
async function takePlace(temporary: string, path: string): Promise<string[]> {
  const aside: string[] = [];
  for (;;) {
    const old = await moveAside(path);
    if (old) aside.push(old);
    try {
      await rename(temporary, path);
      return aside;
    } catch (error) {
      if (['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) continue;
      const last = aside.pop();
      if (last) await rename(last, path);
      for (const folder of aside) await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }
}

/** Renames an existing folder to a temporary name and gives that name back; undefined where there is none. */
async function moveAside(path: string): Promise<string | undefined> {
  const { name } = await claim(path, (free) => mkdir(free));
  try {
    await rename(path, name);
    return name;
  } catch (error) {
    await rm(name, { recursive: true, force: true });
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
