import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeRun, type TestRun } from '../trainer/export/test-support-run.ts';
import { lexpo } from './test-support.ts';

let run: TestRun;
beforeAll(async () => {
  run = await makeRun();
});
afterAll(() => {
  for (const folder of [run.scratch, run.base]) rmSync(folder, { recursive: true });
});

test('writes what was asked for and says where; notes go to stderr', async () => {
  const out = join(run.scratch, 'adapter');
  const plain = await lexpo('export', run.root, '--out', out);
  expect(plain).toMatchObject({ code: 0, out: `${out}: demo-v2\n` });
  expect(plain.err).toContain('--base-name');
  const args = ['--merged', '--checkpoint', 'last', '--base', run.base, '--base-name', 'a/b', '--force'];
  expect(await lexpo('export', run.root, '--out', out, ...args)).toEqual({
    code: 0,
    out: `${out}: demo-v4, merged into its base model\n`,
    err: 'merging model.safetensors (1 of 1)\n',
  });
  expect(existsSync(join(out, 'model.safetensors'))).toBe(true);
});

test('mistakes end with 1 and one message', async () => {
  const out = join(run.scratch, 'never');
  for (const [args, text] of [
    [[run.root], "required option '--out <folder>'"],
    [[run.root, '--out', out, '--base-name', '/home/me/x'], 'is not a name on the Hugging Face hub'],
    [[run.root, '--out', out, '--base-name', 'a/b\nlicense: mit'], 'is not a name'],
    [[run.root, '--out', run.base, '--force'], 'overlaps'],
    [[run.root, '--out', out, '--checkpoint', 'demo-v9'], 'has no adapter demo-v9'],
    [[join(run.root, 'config.json'), '--out', out], 'is a file'],
  ] satisfies [string[], string][]) {
    const result = await lexpo('export', ...args);
    expect(result, args.join(' ')).toMatchObject({ code: 1, out: '' });
    expect(result.err).toContain(text);
    expect(existsSync(out)).toBe(false);
  }
});
