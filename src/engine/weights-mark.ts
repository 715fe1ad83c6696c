/** Telling the weights of a model folder from others, without reading gigabytes. */
import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { readSafetensorsIndex } from './safetensors.ts';

const MIB = 1 << 20;

/**
 * A hash of the size and of the first and last MiB of every weights file of a model folder. Training moves
 * every tensor, so weights that were trained further, or anew, have another one. UserError where
 * `readSafetensorsIndex` has one.
 */
export function weightsMark(folder: string): string {
  const files = [...new Set([...readSafetensorsIndex(folder).values()].map(({ file }) => file))].sort();
  const hash = createHash('sha256');
  for (const file of files) {
    const fd = openSync(file, 'r');
    try {
      const { size } = fstatSync(fd);
      hash.update(`${size}\n`);
      const part = Buffer.alloc(Math.min(size, MIB));
      for (const position of [0, size - part.length]) {
        readSync(fd, part, 0, part.length, position);
        hash.update(part);
      }
    } finally {
      closeSync(fd);
    }
  }
  return hash.digest('hex').slice(0, 16);
}
