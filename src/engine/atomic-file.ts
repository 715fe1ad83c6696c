import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { writeError } from '../base/atomic-write.ts';

/** Makes renames and new names below `folder` durable. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Writes `chunks`, one after the other, to `path`: a reader sees the old file or the whole new one, also
 * after a crash (temporary file beside it, fsync, rename, fsync of the folder). What the file system refuses
 * (full, read-only, not permitted) is a UserError; the temporary file is removed.
 */
export function writeFileAtomic(path: string, chunks: Iterable<Uint8Array>): void {
  const temporary = join(dirname(path), `.${basename(path)}.tmp-${process.pid}`);
  const fd = openSync(temporary, 'w');
  let open = true;
  try {
    for (const chunk of chunks) {
      for (let done = 0; done < chunk.length; ) {
        // One write call takes less than 2 GiB.
        done += writeSync(fd, chunk, done, Math.min(chunk.length - done, 1 << 30));
      }
    }
    fsyncSync(fd);
    closeSync(fd);
    open = false;
    renameSync(temporary, path);
  } catch (error) {
    if (open) closeSync(fd);
    rmSync(temporary, { force: true });
    throw writeError(error, path);
  }
  syncFolder(dirname(path));
}
