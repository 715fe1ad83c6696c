import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { corpusOf } from '../../env/corpus.ts';
import type { Query } from '../../env/types.ts';
import { type InboxLine, readInbox, sortPairs } from './collect.ts';

const corpus = corpusOf(['a1', 'a2', 'a3'].map((id) => ({ id, title: id, text: `text of ${id}` })));
const pair = (id: string, query: string, ...gold: string[]): Query => ({ id, query, gold });
const sets = {
  train: [pair('t1', '押金不退怎么办', 'a1', 'a2')],
  heldOut: [pair('v1', '房子漏水谁修', 'a2')],
};
const asLines = (pairs: Query[]): InboxLine[] =>
  pairs.map((p, i) => ({ file: 'f', line: i + 1, content: { kind: 'pair', pair: p } }));
const sort = (pairs: Query[], share = 0) => sortPairs(asLines(pairs), sets, corpus, share);

describe('a pair', () => {
  test.each([
    ['with gold that the corpus lacks', pair('n', '新问题', 'a1', 'zz'), /"zz" is not in the corpus/],
    ['with gold listed twice', pair('n', '新问题', 'a1', 'a1'), /listed twice/],
    ['whose id belongs to another question', pair('t1', '新问题', 'a1'), /"t1" belongs to another/],
    ['whose id is held out with another question', pair('v1', '新问题', 'a1'), /"v1" belongs to another/],
    ['that has other gold in the training set', pair('n', '押金不退怎么办', 'a1'), /other gold, as "t1"/],
    [
      'that is asked of another day in the training set',
      { ...pair('n', '押金不退怎么办', 'a1', 'a2'), date: '2020-01-01' },
      /another date, answer or exclusion, as "t1"/,
    ],
    ['held out word for word', pair('n', '房子漏水谁修', 'a1'), /held out as "v1"/],
    ['held out but for white space', pair('n', ' 房子漏水谁修\u3000', 'a2'), /held out as "v1"/],
    ['that is the held-out one itself', pair('v1', '房子漏水谁修', 'a2'), /held out as "v1"/],
  ])('%s is refused', (_, bad, reason) => {
    const { train, heldOut, known, refused } = sort([bad]);
    expect({ train, heldOut, known }).toEqual({ train: [], heldOut: [], known: 0 });
    expect(refused).toEqual([{ file: 'f', line: 1, id: bad.id, reason: expect.stringMatching(reason) }]);
  });

  test('composed and decomposed characters are the same words', () => {
    const lines = asLines([pair('a', 'caf\u00e9', 'a1'), pair('b', 'cafe\u0301', 'a2')]);
    expect(sortPairs(lines, sets, corpus, 0).refused[0]).toMatchObject({ line: 2, id: 'b' });
  });

  test('that is there already is no news and no mistake, in whatever order its gold stands', () => {
    const twice = pair('n1', '新问题', 'a3');
    const got = sort([pair('t1', '押金不退怎么办', 'a2', 'a1'), twice, twice]);
    expect(got).toMatchObject({ train: [twice], known: 2, refused: [] });
  });

  test('is judged against the lines before it', () => {
    const { train, refused } = sort([
      pair('n1', '新问题', 'a3'),
      pair('n1', '又一个', 'a3'),
      pair('n2', '新问题', 'a1'),
    ]);
    expect(train.map(({ id }) => id)).toEqual(['n1']);
    expect(refused.map(({ line }) => line)).toEqual([2, 3]);
  });
});

describe('the held-out share', () => {
  const many = Array.from({ length: 2000 }, (_, i) => pair(`n${i}`, `问题 ${i}`, 'a1'));

  test('is about what was asked for, and the same whenever and in whatever order pairs come', () => {
    const whole = sort(many, 0.3);
    expect(whole.heldOut.length / 2000).toBeGreaterThan(0.26);
    expect(whole.heldOut.length / 2000).toBeLessThan(0.34);
    expect(whole.train.length + whole.heldOut.length).toBe(2000);
    const names = (list: Query[]) => list.map(({ id }) => id).sort();
    expect(names(sort([...many].reverse(), 0.3).heldOut)).toEqual(names(whole.heldOut));
    expect(sort(many, 0).heldOut).toEqual([]);
  });

  test('a file that comes again finds its pairs known on both sides, and spoils nothing', () => {
    const first = sort(many, 0.3);
    const grown = { train: [...sets.train, ...first.train], heldOut: [...sets.heldOut, ...first.heldOut] };
    const again = sortPairs(asLines(many), grown, corpus, 0.3);
    expect(again).toMatchObject({ train: [], heldOut: [], known: 2000, refused: [] });
    // Under another name it would be trained on.
    const renamed = sortPairs(asLines([{ ...first.heldOut[0]!, id: 'new' }]), grown, corpus, 0.3);
    expect(renamed.refused[0]!.reason).toContain('held out');
  });
});

describe('the inbox', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'lexpo-inbox-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const put = (name: string, content: string | Uint8Array) => writeFileSync(join(folder, name), content);
  const good = (id: string) => JSON.stringify(pair(id, `问 ${id}`, 'a1'));

  test('is read by name, plain and gzip, each line by its number; what is no pair says why', async () => {
    put('b.jsonl.gz', gzipSync(`${good('n3')}\n`));
    put(
      'a.jsonl',
      Buffer.concat([
        Buffer.from(`${good('n1')}\r\n\n{"id": "x"\n`),
        Buffer.from([0x22, 0xff, 0x22, 0x0a]),
        Buffer.from(`{"id":" ","query":"q","gold":[]}\n[1]\n${good('n2')}`),
      ]),
    );
    put('notes.txt', 'mine');
    put('.half.jsonl', good('n9'));
    const { files, lines } = await readInbox(folder, new Set());
    expect(files.map(({ file }) => file)).toEqual(['a.jsonl', 'b.jsonl.gz']);
    const told = lines.map(({ file, line, content }) => [
      file[0],
      line,
      content.kind === 'pair' ? content.pair.id : content.reason,
    ]);
    expect(told).toEqual([
      ['a', 1, 'n1'],
      ['a', 3, expect.stringContaining('not valid JSON')],
      ['a', 4, 'not valid UTF-8'],
      ['a', 5, expect.stringMatching(/id must not be empty.*at least one gold/)],
      ['a', 6, expect.stringContaining('expected object')],
      ['a', 7, 'n2'],
      ['b', 1, 'n3'],
    ]);
  });

  test('a damaged gzip file is refused as a whole, and the others are read', async () => {
    put('a.jsonl.gz', gzipSync(`${good('n1')}\n`.repeat(1000)).subarray(0, 40));
    put('b.jsonl', good('n2'));
    const { lines } = await readInbox(folder, new Set());
    expect(lines.map(({ line, content }) => [line, content.kind])).toEqual([
      [0, 'bad'],
      [1, 'pair'],
    ]);
  });

  test('used-up bytes are passed over under any name; a file that grew is read again', async () => {
    put('a.jsonl', `${good('n1')}\n`);
    const done = new Set((await readInbox(folder, new Set())).files.map(({ sha256 }) => sha256));
    put('copy.jsonl', `${good('n1')}\n`);
    expect((await readInbox(folder, done)).files).toEqual([]);
    put('a.jsonl', `${good('n1')}\n${good('n2')}\n`);
    expect((await readInbox(folder, done)).files.map(({ file }) => file)).toEqual(['a.jsonl']);
  });

  test('a link that leads nowhere or to a folder is told, and keeps nothing else from being read', async () => {
    put('c.jsonl', good('n1'));
    symlinkSync(join(folder, 'none'), join(folder, 'a.jsonl'));
    symlinkSync(folder, join(folder, 'b.jsonl'));
    const { files, lines } = await readInbox(folder, new Set());
    expect(files.map(({ file }) => file)).toEqual(['c.jsonl']);
    const bad = (reason: string) => ({
      kind: 'bad',
      reason: expect.stringMatching(`cannot be read.*${reason}`),
    });
    expect(lines.map(({ file, line, content }) => [file, line, content])).toEqual([
      ['a.jsonl', 0, bad('ENOENT')],
      ['b.jsonl', 0, bad('EISDIR')],
      ['c.jsonl', 1, expect.objectContaining({ kind: 'pair' })],
    ]);
  });

  test('a folder that is not there is said', async () => {
    await expect(readInbox(join(folder, 'none'), new Set())).rejects.toThrow(/none: no such folder/);
    put('file', '');
    await expect(readInbox(join(folder, 'file'), new Set())).rejects.toThrow(/is a file/);
  });
});
