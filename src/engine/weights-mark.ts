/** Telling the weights of a model folder from others. */
import { createHash } from 'node:crypto';
import { closeSync, readSync } from 'node:fs';
import { openFile } from './file-bytes.ts';
import { readSafetensorsIndex } from './safetensors.ts';

const CHUNK_BYTES = 4 << 20;

/**
 * A hash of every byte of the weights files of a model folder, in the order of their names: 16 hex digits of
 * SHA-256. All of it is read, since a weight changed in the middle of a file is another model: one to two
 * seconds a gigabyte, of bytes that the sessions are going to read anyway. UserError where
 * `readSafetensorsIndex` has one.
 */
export function weightsMark(folder: string): string {
  const files = [...new Set([...readSafetensorsIndex(folder).values()].map(({ file }) => file))].sort();
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  for (const file of files) {
    const fd = openFile(file);
    try {
      for (let n = readSync(fd, chunk); n > 0; n = readSync(fd, chunk)) hash.update(chunk.subarray(0, n));
    } finally {
      closeSync(fd);
    }
  }
  return hash.digest('hex').slice(0, 16);
}
