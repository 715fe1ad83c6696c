import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { sha256, sha256OfFile, shortHash } from './hash.ts';

it('is the standard’s: FIPS 180-4, "abc"; of a text, of its bytes, of a file and in short', async () => {
  const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
  expect(sha256('abc')).toBe(abc);
  expect(sha256(new TextEncoder().encode('abc'))).toBe(abc);
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-hash-'));
  writeFileSync(join(folder, 'abc'), 'abc');
  expect(await sha256OfFile(join(folder, 'abc'))).toBe(abc);
  rmSync(folder, { recursive: true });
  expect(shortHash(['a', 1])).toBe(sha256('["a",1]').slice(0, 16));
});
