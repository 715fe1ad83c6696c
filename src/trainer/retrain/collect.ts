/** New labelled pairs: read from the inbox, each one judged, the good ones added to the sets. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { messageOf, UserError } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import { streamSeed } from '../../base/random.ts';
import { problemsOf } from '../../base/read-json.ts';
import type { Corpus } from '../../env/corpus.ts';
import { goldProblems, querySchema, wordsOf } from '../../env/queries.ts';
import type { Query } from '../../env/types.ts';
import type { InboxFile } from './records.ts';

/** A line of an inbox file, or what is wrong with it; `line` from 1, 0 for the file as a whole. */
export interface InboxLine {
  file: string;
  line: number;
  content: { kind: 'pair'; pair: Query } | { kind: 'bad'; reason: string };
}

export interface Refusal {
  file: string;
  line: number;
  id: string | null;
  reason: string;
}

/**
 * Reads the inbox's `*.jsonl` and `*.jsonl.gz` files in the order of their names, except those whose very bytes
 * were used up before (`done`: SHA-256). Names with a leading dot are files on their way in, and left alone. A
 * file that cannot be read is one bad line, each time.
 */
export async function readInbox(
  folder: string,
  done: ReadonlySet<string>,
): Promise<{ files: InboxFile[]; lines: InboxLine[] }> {
  const files: InboxFile[] = [];
  const lines: InboxLine[] = [];
  for (const file of await inboxNames(folder)) {
    const bytes = await readFile(join(folder, file)).catch((error: Error) => error);
    if (bytes instanceof Error) {
      // A dangling link, a link to a folder, a file that is not ours to read: no reason to leave the others.
      lines.push({ file, line: 0, content: { kind: 'bad', reason: `cannot be read (${messageOf(bytes)})` } });
      continue;
    }
    const hash = sha256(bytes);
    if (done.has(hash)) continue;
    files.push({ file, sha256: hash });
    lines.push(...linesOf(file, bytes));
  }
  return { files, lines };
}

/** The files of pairs in the inbox, by name. UserError when there is no such folder. */
export async function inboxNames(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    const names = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
    return names.filter((name) => /^[^.].*\.jsonl(\.gz)?$/.test(name)).sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    throw new UserError(
      code === 'ENOENT' ? 'no such folder' : 'is a file, not a folder',
      folder,
      'make it: retrain.inbox is the folder that new pairs are put into',
    );
  }
}

function linesOf(file: string, bytes: Buffer): InboxLine[] {
  const bad = (line: number, reason: string): InboxLine => ({ file, line, content: { kind: 'bad', reason } });
  let plain: Buffer;
  try {
    plain = file.endsWith('.gz') ? gunzipSync(bytes) : bytes;
  } catch (error) {
    return [bad(0, `gzip data is damaged or cut off (${messageOf(error)})`)];
  }
  const out: InboxLine[] = [];
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for (let start = 0, line = 1; start < plain.length; line++) {
    const end = plain.indexOf(10, start);
    const raw = plain.subarray(start, end < 0 ? plain.length : end);
    start += raw.length + 1;
    try {
      const text = decoder.decode(raw);
      if (text.trim() === '') continue;
      const parsed = querySchema.safeParse(JSON.parse(text));
      if (parsed.success) out.push({ file, line, content: { kind: 'pair', pair: parsed.data } });
      else out.push(bad(line, problemsOf(parsed.error)));
    } catch (error) {
      const isText = error instanceof SyntaxError;
      out.push(bad(line, isText ? `not valid JSON (${error.message})` : 'not valid UTF-8'));
    }
  }
  return out;
}

export interface Sets {
  train: readonly Query[];
  heldOut: readonly Query[];
}

export interface SortedPairs {
  train: Query[];
  heldOut: Query[];
  /** Pairs that are there already: nothing new, and nothing wrong. */
  known: number;
  refused: Refusal[];
}

const goldKey = (gold: readonly string[]): string => JSON.stringify([...gold].sort());
/** The rest of what a label says; a date changes the law that is asked for, an answer what is right. */
const restKey = ({ date, answer, exclude }: Query): string =>
  JSON.stringify([date ?? null, answer ?? null, [...(exclude ?? [])].sort()]);

/**
 * Judges every line against the corpus, the sets so far and the lines before it. Refused are: what is no pair, a
 * gold id that the corpus lacks or that stands there twice, an id that names another pair, a question that has
 * another label already (gold, date, answer, excluded precedents), and a question that stands in the held-out set. Of the rest `share` (0 to 1) is held out,
 * chosen by the question alone: the same question falls on the same side whenever it comes.
 */
export function sortPairs(
  lines: readonly InboxLine[],
  { train, heldOut }: Sets,
  corpus: Pick<Corpus, 'byId'>,
  share: number,
): SortedPairs {
  const out: SortedPairs = { train: [], heldOut: [], known: 0, refused: [] };
  const ids = new Map<string, Query>();
  const trained = new Map<string, Query>();
  const held = new Map<string, Query>();
  const place = (to: Map<string, Query>, pair: Query) => {
    ids.set(pair.id, pair);
    to.set(wordsOf(pair.query), pair);
  };
  for (const pair of train) place(trained, pair);
  for (const pair of heldOut) place(held, pair);

  const judge = (pair: Query): 'new' | 'known' | { reason: string } => {
    const words = wordsOf(pair.query);
    const [problem] = goldProblems(pair.gold, corpus);
    if (problem) return { reason: `gold article "${problem.id}" ${problem.what}` };
    const sameGold = (other: Query) => goldKey(other.gold) === goldKey(pair.gold);
    const same = (other: Query) => sameGold(other) && restKey(other) === restKey(pair);
    const twin = held.get(words);
    // With a growing held-out set a pair that it took comes by again when its file does.
    if (twin) {
      if (share > 0 && twin.id === pair.id && same(twin)) return 'known';
      return { reason: `its question is held out as "${twin.id}": training on it would spoil the figures` };
    }
    const namesake = ids.get(pair.id);
    if (namesake && wordsOf(namesake.query) !== words)
      return { reason: `the id "${pair.id}" belongs to another question` };
    const before = trained.get(words);
    if (before && !same(before)) {
      const what = sameGold(before) ? 'another date, answer or exclusion' : 'other gold';
      return { reason: `the question stands there with ${what}, as "${before.id}"` };
    }
    return before ? 'known' : 'new';
  };

  for (const { file, line, content } of lines) {
    const refuse = (id: string | null, reason: string) => out.refused.push({ file, line, id, reason });
    if (content.kind === 'bad') {
      refuse(null, content.reason);
      continue;
    }
    const { pair } = content;
    const verdict = judge(pair);
    if (verdict === 'known') out.known++;
    else if (verdict === 'new') {
      const holdOut = streamSeed(0, 'held-out', wordsOf(pair.query)) / 2 ** 31 < share;
      place(holdOut ? held : trained, pair);
      (holdOut ? out.heldOut : out.train).push(pair);
    } else refuse(pair.id, verdict.reason);
  }
  return out;
}
