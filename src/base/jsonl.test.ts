import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { jsonLine, writeJsonLines } from './jsonl.ts';
import { temporaryFolder } from './test-support.ts';

const folder = temporaryFolder();
const records = Array.from({ length: 3000 }, (_, i) => ({
  i,
  text: `第${i}条 "quoted"\n\u2028`,
  none: null,
}));

test('plain and gzip files hold one value a line, in order, with the same bytes each time', async () => {
  const plain = join(folder, 'a.jsonl');
  const zipped = join(folder, 'a.jsonl.gz');
  await writeJsonLines(plain, records);
  await writeJsonLines(zipped, records);
  const text = readFileSync(plain, 'utf8');
  expect(text.endsWith('\n')).toBe(true);
  expect(
    text
      .slice(0, -1)
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual(records);
  const first = readFileSync(zipped);
  expect(gunzipSync(first).toString('utf8')).toBe(text);
  await writeJsonLines(zipped, records);
  expect(readFileSync(zipped).equals(first)).toBe(true);
});

test('no records make an empty file', async () => {
  const path = join(folder, 'empty.jsonl');
  await writeJsonLines(path, []);
  expect(readFileSync(path, 'utf8')).toBe('');
});

for (const name of ['broken.jsonl', 'broken.jsonl.gz']) {
  test(`an error in the middle leaves no ${name}`, async () => {
    const source = async function* () {
      yield* records;
      throw new Error('source failed');
    };
    await expect(writeJsonLines(join(folder, name), source())).rejects.toThrow('source failed');
    expect(readdirSync(folder).filter((file) => file.includes('broken'))).toEqual([]);
  });
}

test('numbers that JSON cannot hold are refused, not turned into null', () => {
  expect(() => jsonLine({ a: [1, Number.NaN] })).toThrow(/NaN/);
  expect(() => jsonLine({ loss: Number.POSITIVE_INFINITY })).toThrow(/loss/);
  expect(() => jsonLine(undefined)).toThrow();
  expect(jsonLine({ a: 1 })).toBe('{"a":1}\n');
});
