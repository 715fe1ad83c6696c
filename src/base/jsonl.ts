/** JSON Lines out: one JSON value a line, gzip where the name ends in `.gz`, whole or not at all. */
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { writeFileAtomic } from './atomic-write.ts';

/** One value as a line, its line feed included. A number that is not finite is an error, never `null`. */
export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value, (key, item) => {
    if (typeof item === 'number' && !Number.isFinite(item)) throw new Error(`${key} is ${item}: not JSON`);
    return item;
  });
  if (text === undefined) throw new Error('undefined is not JSON');
  return `${text}\n`;
}

/**
 * Writes `records` to `path` atomically, in their order, without holding them all as text. The bytes depend
 * on the records only. An error thrown by `records` leaves nothing behind and passes through.
 */
export async function writeJsonLines(
  path: string,
  records: Iterable<unknown> | AsyncIterable<unknown>,
): Promise<void> {
  const lines = linesOf(records);
  await writeFileAtomic(path, path.endsWith('.gz') ? gzipped(lines) : lines);
}

async function* gzipped(chunks: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const gzip = createGzip();
  // The pipeline destroys `gzip` with the error of `chunks`, so the loop below throws it; hence no second report.
  pipeline(chunks, gzip).catch(() => {});
  for await (const chunk of gzip) yield chunk as Uint8Array;
}

/** The lines, gathered to chunks of about 64 KiB. */
async function* linesOf(records: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<string> {
  let chunk = '';
  for await (const record of records) {
    chunk += jsonLine(record);
    if (chunk.length < 1 << 16) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk) yield chunk;
}
