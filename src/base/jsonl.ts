/**
 * JSON Lines. Out: one JSON value a line, gzip where the name ends in `.gz`, whole or not at all. In: streamed,
 * plain or gzip, every line checked, problems named by line.
 */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { z } from 'zod';
import { writeFilesAtomic } from './atomic-write.ts';
import { messageOf, UserError } from './errors.ts';

type Records = Iterable<unknown> | AsyncIterable<unknown>;

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
export function writeJsonLines(path: string, records: Records): Promise<void> {
  return writeJsonLinesFiles([[path, records]]);
}

/** As `writeJsonLines`, for files that belong together: none takes its name before all are written. */
export function writeJsonLinesFiles(files: readonly (readonly [path: string, Records])[]): Promise<void> {
  return writeFilesAtomic(
    files.map(([path, records]) => {
      const lines = linesOf(records);
      return [path, path.endsWith('.gz') ? gzipped(lines) : lines];
    }),
  );
}

async function* gzipped(chunks: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const gzip = createGzip();
  // The pipeline destroys `gzip` with the error of `chunks`, so the loop below throws it; hence no second report.
  pipeline(chunks, gzip).catch(() => {});
  for await (const chunk of gzip) yield chunk as Uint8Array;
}

/** The lines, gathered to chunks of about 64 KiB. */
async function* linesOf(records: Records): AsyncGenerator<string> {
  let chunk = '';
  for await (const record of records) {
    chunk += jsonLine(record);
    if (chunk.length < 1 << 16) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk) yield chunk;
}

/** So many problems of a file are told at once. */
const MAX_PROBLEMS = 10;

/**
 * Reads a file of JSON Lines (`.gz`: gzip), checks each line by `schema` and hands it to `visit` with its
 * line number (from 1). Lines of white space only are skipped. `report` is for what `visit` itself finds wrong.
 *
 * Reads on after a problem, up to ten, and then throws one `UserError` that lists them with file and line.
 * Lines end at LF or CRLF only: a raw U+2028 inside a JSON string is text. Bytes that are not UTF-8 are a
 * problem, never a replacement character.
 */
export async function readJsonLines<T>(
  path: string,
  schema: z.ZodType<T>,
  visit: (value: T, line: number, report: (what: string) => void) => void,
): Promise<void> {
  const found: { line: number; what: string }[] = [];
  let line = 0;
  const report = (what: string): void => {
    found.push({ line, what });
    if (found.length >= MAX_PROBLEMS) throw new TooMany();
  };
  try {
    for await (const text of textLines(path)) {
      line++;
      if (text === null) report(NOT_UTF8);
      else if (text.trim() !== '') {
        const value = parseLine(text, schema, report);
        if (value !== undefined) visit(value, line, report);
      }
    }
  } catch (error) {
    if (!(error instanceof TooMany)) throw error;
  }
  if (found.length > 0) throw problemsError(path, found);
}

const NOT_UTF8 = 'not valid UTF-8';

class TooMany extends Error {}

function parseLine<T>(text: string, schema: z.ZodType<T>, report: (what: string) => void): T | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    report(`not valid JSON (${messageOf(error)})`);
    return undefined;
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues) {
    const key = issue.path.join('.');
    report(key ? `"${key}": ${issue.message}` : issue.message);
  }
  return undefined;
}

function problemsError(path: string, found: { line: number; what: string }[]): UserError {
  const hint = found.every(({ what }) => what === NOT_UTF8)
    ? 'save the file as UTF-8; the name of a gzip file must end in .gz'
    : 'correct the lines named above';
  const [first] = found;
  if (found.length === 1) return new UserError(first!.what, `${path}:${first!.line}`, hint);
  const count =
    found.length >= MAX_PROBLEMS ? `${found.length} problems, reading stopped` : `${found.length} problems`;
  const list = found.map(({ line, what }) => `\n  line ${line}: ${what}`).join('');
  return new UserError(count + list, path, hint);
}

/** The lines of a file; null for a line that is not UTF-8. */
async function* textLines(path: string): AsyncGenerator<string | null> {
  const file = createReadStream(path, { highWaterMark: 1 << 18 });
  const gz = path.endsWith('.gz');
  const bytes = gz ? file.pipe(createGunzip()) : file;
  if (gz) file.on('error', (error) => bytes.destroy(error));
  let rest: Buffer[] = [];
  let first = true;
  const decode = (line: Buffer): string | null => {
    const start = first && line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf ? 3 : 0;
    first = false;
    const text = line.toString('utf8', start);
    return text.includes('\ufffd') && !isUtf8(line) ? null : text;
  };
  try {
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
        const piece = chunk.subarray(from, at);
        yield decode(rest.length > 0 ? Buffer.concat([...rest, piece]) : piece);
        rest = [];
        from = at + 1;
      }
      if (from < chunk.length) rest.push(chunk.subarray(from));
    }
  } catch (error) {
    throw readError(error, path);
  } finally {
    file.destroy();
  }
  if (rest.length > 0) yield decode(Buffer.concat(rest));
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function readError(error: unknown, path: string): unknown {
  const code = (error as NodeJS.ErrnoException)?.code ?? '';
  if (code === 'ENOENT')
    return new UserError(
      'file not found',
      path,
      'check the path; a relative one starts from the current folder',
    );
  if (code === 'EISDIR')
    return new UserError('is a folder, not a file', path, 'name a .jsonl or .jsonl.gz file');
  if (code === 'EACCES') return new UserError('may not be read', path, 'check the permissions of the file');
  if (code.startsWith('Z_')) {
    return new UserError(
      `gzip data is damaged or cut off (${messageOf(error)})`,
      path,
      'copy the file again',
    );
  }
  if ((error as NodeJS.ErrnoException)?.syscall)
    return new UserError(`cannot be read (${messageOf(error)})`, path, 'check the path and the disk');
  return error;
}
