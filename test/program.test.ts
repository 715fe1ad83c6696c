import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';

// What `npm test` has done already: the program would say that it compiles.
beforeAll(() => void execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' }));

test.skipIf(!existsSync('/dev/full'))('output that is lost is never a success', () => {
  const full = openSync('/dev/full', 'w');
  const { status, stderr } = spawnSync(process.execPath, ['bin/lexpo.js', '--version'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^lexpo: stdout: cannot be written \(ENOSPC.*\)\n$/);
});

test('one signal ends a training that is still making its base model', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-program-'));
  const settings = [
    `run.dir=${join(folder, 'runs')}`,
    `model.path=${join(folder, 'model')}`,
    // Minutes, if nothing stops it.
    'model.build={size: tiny, tokens: 100000000}',
  ];
  const args = [
    'bin/lexpo.js',
    'train',
    'configs/quickstart.yaml',
    ...settings.flatMap((set) => ['--set', set]),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  let asked = false;
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk;
    if (asked || !output.includes('pretraining')) return;
    asked = true;
    child.kill('SIGINT');
  });
  expect(await once(child, 'exit')).toEqual([130, null]);
  expect(output).toContain('nothing was written');
  expect(existsSync(join(folder, 'runs', 'quickstart'))).toBe(false);
  rmSync(folder, { recursive: true });
});
