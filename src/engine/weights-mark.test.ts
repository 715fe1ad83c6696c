import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { tinyModel } from './test-support.ts';
import { weightsMark } from './weights-mark.ts';

const folder = tinyModel();
const copy = `${folder}-copy`;
afterAll(() => {
  for (const path of [folder, copy]) rmSync(path, { recursive: true });
});

test('is the same for a copy and another for one byte anywhere', () => {
  cpSync(folder, copy, { recursive: true });
  const mark = weightsMark(folder);
  expect(weightsMark(copy)).toBe(mark);
  const file = join(copy, 'model.safetensors');
  const bytes = readFileSync(file);
  const data = 8 + Number(bytes.readBigUInt64LE(0));
  for (const at of [data, (data + bytes.length) >> 1, bytes.length - 1]) {
    const other = Buffer.from(bytes);
    other[at]! ^= 1;
    writeFileSync(file, other);
    expect(weightsMark(copy)).not.toBe(mark);
  }
  writeFileSync(file, bytes);
  expect(weightsMark(copy)).toBe(mark);
  rmSync(file);
  expect(() => weightsMark(copy)).toThrow(UserError);
});
