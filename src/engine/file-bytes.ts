/** Bytes of large files, in the steps that the system allows, with errors that name the file. */
import { closeSync, openSync, readSync } from 'node:fs';
import { messageOf, UserError } from '../base/errors.ts';

export const DAMAGED =
  'The file is damaged or incomplete: copy or download it again and compare its size or checksum.';

/** Reads until `target` is full. Less than 2 GiB fits into one read call, hence the steps. */
export function readFully(fd: number, target: Uint8Array, position: number, file: string): void {
  for (let done = 0; done < target.length; ) {
    const got = readSync(fd, target, done, Math.min(target.length - done, 1 << 30), position + done);
    if (got === 0)
      throw new UserError(`ends at byte ${position + done}, before its tensors do`, file, DAMAGED);
    done += got;
  }
}

/** A file opened for reading; UserError with the reason when it cannot be. */
export function openFile(file: string): number {
  try {
    return openSync(file, 'r');
  } catch (error) {
    throw new UserError(
      `cannot be opened (${messageOf(error)})`,
      file,
      'Check the path and its permissions.',
    );
  }
}

const COMPARE_BYTES = 4 << 20;

/** A range of a file's bytes. */
interface Range {
  file: string;
  offset: number;
  bytes: number;
}

/** Whether two ranges hold the same bytes. */
export function sameBytes(a: Range, b: Range): boolean {
  if (a.bytes !== b.bytes) return false;
  const [fdA, fdB] = [openFile(a.file), openFile(b.file)];
  try {
    const [x, y] = [Buffer.allocUnsafe(COMPARE_BYTES), Buffer.allocUnsafe(COMPARE_BYTES)];
    for (let done = 0; done < a.bytes; done += COMPARE_BYTES) {
      const size = Math.min(COMPARE_BYTES, a.bytes - done);
      readFully(fdA, x.subarray(0, size), a.offset + done, a.file);
      readFully(fdB, y.subarray(0, size), b.offset + done, b.file);
      if (!x.subarray(0, size).equals(y.subarray(0, size))) return false;
    }
    return true;
  } finally {
    closeSync(fdA);
    closeSync(fdB);
  }
}
