import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { UserError } from './errors.ts';
import { readJsonFile } from './read-json.ts';

const file = join(mkdtempSync(join(tmpdir(), 'lexpo-json-')), 'x.json');
const schema = z.object({ n: z.number().default(3), deep: z.object({ s: z.string() }) });
const read = (text: string | null) => {
  if (text !== null) writeFileSync(file, text);
  try {
    return readJsonFile(file, schema, 'Do this.');
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return String(error);
  }
};

test('gives what the schema makes of the file, or one error that names file, path and what to do', () => {
  expect(read(null)).toMatch(/x\.json: cannot be read as JSON \(ENOENT.*\n.*Do this\./s);
  expect(read('{')).toMatch(/x\.json: cannot be read as JSON/);
  expect(read('{"deep": {"s": "a"}}')).toEqual({ n: 3, deep: { s: 'a' } });
  expect(read('{"n": "1", "deep": {}}')).toMatch(/x\.json: n: .*; deep\.s: .*\n.*Do this\./);
  expect(read('[]')).toMatch(/\(top\): /);
});
