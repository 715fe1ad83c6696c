/**
 * Rows of other projects' files: JSON Lines, or one JSON array, as LawBench's are (both are named `.json` there), or a
 * folder of files with one row each, as LeCaRDv2's cases are.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { z } from 'zod';
import { messageOf, UserError } from '../../base/errors.ts';
import { readJsonLines } from '../../base/jsonl.ts';

/** A row's own id, which may be absent; a blank one is none. */
export const rowId = z
  .union([z.string(), z.number()])
  .nullish()
  .transform((given) => String(given ?? '').trim() || null);

/** So many problems of a file are told at once. */
const MAX_PROBLEMS = 10;

/**
 * Hands each row of `path` to `visit` with its number, from 1: the line, the place in the array, or the place among
 * the folder's `.json` files, sorted by their names with numbers as numbers. Lines or an array, the first character of a
 * file says, of a gzip file the first of what it holds. Throws a `UserError` that names file and rows for broken JSON, for bytes that are
 * not UTF-8, for rows that do not fit `schema`, and for a missing file; nothing is visited of an array or a folder that
 * has one.
 */
export async function readRows<T>(
  path: string,
  schema: z.ZodType<T>,
  visit: (row: T, number: number) => void,
): Promise<void> {
  if ((await stat(path).catch(() => null))?.isDirectory()) {
    const files = await jsonFiles(path);
    const rows: [string, unknown][] = [];
    for (const file of files) rows.push([file, await jsonOf(join(path, file))]);
    return visitAll(path, rows, schema, visit);
  }
  if (!(await beginsAnArray(path))) return readJsonLines(path, schema, visit);
  const rows = z.array(z.unknown()).parse(await jsonOf(path));
  visitAll(
    path,
    rows.map((row, i) => [`row ${i + 1}`, row]),
    schema,
    visit,
  );
}

/** Checks every row, each with the name that a problem of it is told by, before the first is visited. */
function visitAll<T>(
  path: string,
  rows: [name: string, row: unknown][],
  schema: z.ZodType<T>,
  visit: (row: T, number: number) => void,
): void {
  const problems: string[] = [];
  const read = rows.map(([name, row]) => {
    const parsed = schema.safeParse(row);
    for (const { path: key, message } of parsed.error?.issues ?? [])
      problems.push(`\n  ${name}: ${key.length > 0 ? `"${key.join('.')}": ` : ''}${message}`);
    return parsed.data;
  });
  if (problems.length > 0)
    throw new UserError(
      `${problems.length} problems${problems.slice(0, MAX_PROBLEMS).join('')}`,
      path,
      'correct the rows named above',
    );
  for (const [i, row] of read.entries()) visit(row!, i + 1);
}

const byNumber = new Intl.Collator('en', { numeric: true });

async function jsonFiles(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json') && !name.startsWith('.'));
  if (names.length > 0) return names.sort(byNumber.compare);
  throw new UserError('holds no .json file', folder, 'name a file, or the folder of the cases');
}

/** Whether the first character of a file is `[`. What cannot be opened is none: reading its lines tells why. */
async function beginsAnArray(path: string): Promise<boolean> {
  try {
    // A byte order mark and white space come first at most: the first chunk holds the character.
    for await (const chunk of contentOf(path))
      return /^\uFEFF?\s*\[/.test((chunk as Buffer).toString('utf8', 0, 256));
  } catch {
    // A folder, a missing file, no gzip after all: told by the reading of lines, too.
  }
  return false;
}

/** The bytes of a file, unpacked where its name ends in `.gz`. */
function contentOf(path: string): Readable {
  const file = createReadStream(path);
  if (!path.endsWith('.gz')) return file;
  const unpacked = createGunzip();
  // Whoever reads `unpacked` meets the error there; stopping early closes the file.
  pipeline(file, unpacked).catch(() => {});
  return unpacked;
}

async function jsonOf(path: string): Promise<unknown> {
  let bytes: Buffer;
  try {
    bytes = await buffer(contentOf(path));
  } catch (error) {
    throw new UserError(`cannot be read (${messageOf(error)})`, path);
  }
  let text: string;
  try {
    // Never replacement characters: they would be read as what the question says. A BOM is left out.
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UserError('not valid UTF-8', path, 'save the file as UTF-8');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserError(`is no JSON (${messageOf(error)})`, path, 'give JSON Lines, or one whole JSON array');
  }
}
