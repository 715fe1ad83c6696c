import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { claimRun } from './run-claim.ts';

const PLAIN = { resume: false, fresh: false };
const CONFIG = JSON.stringify({ run: {}, model: {}, data: {}, rollout: {}, train: {}, lora: {} });
let root = '';
beforeEach(() => {
  root = join(mkdtempSync(join(tmpdir(), 'lexpo-claim-')), 'runs', 'demo');
});

function earlierRun(config: string): void {
  mkdirSync(join(root, 'adapters', 'demo-v0'), { recursive: true });
  writeFileSync(join(root, 'config.json'), config);
}

test('a new folder is made, locked, and free again afterwards', () => {
  const release = claimRun(root, PLAIN);
  expect(readFileSync(join(root, '.lock'), 'utf8')).toBe(String(process.pid));
  release();
  expect(readdirSync(root)).toEqual([]);
  claimRun(root, PLAIN)();
});

test('--fresh empties a run of ours and nothing else; --resume leaves it', () => {
  earlierRun(CONFIG);
  expect(() => claimRun(root, PLAIN)).toThrow(/--resume.*--fresh/);
  claimRun(root, { resume: true, fresh: false })();
  expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(true);
  claimRun(root, { resume: false, fresh: true })();
  expect(readdirSync(root)).toEqual([]);
});

for (const [name, config] of [
  ['another JSON', '{"run": 1}'],
  ['broken JSON', '{'],
  ['null', 'null'],
] as const) {
  test(`--fresh keeps a folder whose config.json is ${name}`, () => {
    earlierRun(config);
    expect(() => claimRun(root, { resume: false, fresh: true })).toThrow(/removes nothing/);
    expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(true);
  });
}

test('a folder in use by a living process is refused, and kept', () => {
  earlierRun(CONFIG);
  writeFileSync(join(root, '.lock'), String(process.ppid));
  for (const options of [
    { resume: true, fresh: false },
    { resume: false, fresh: true },
  ])
    expect(() => claimRun(root, options)).toThrow(new RegExp(`in use by process ${process.ppid}`));
  expect(existsSync(join(root, 'config.json'))).toBe(true);
  expect(readFileSync(join(root, '.lock'), 'utf8')).toBe(String(process.ppid));
});

test('the lock of a process that was killed is taken over', () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  earlierRun(CONFIG);
  writeFileSync(join(root, '.lock'), String(pid));
  claimRun(root, { resume: true, fresh: false })();
  expect(existsSync(join(root, '.lock'))).toBe(false);
});

test('a file in place of the folder is a clear error', () => {
  mkdirSync(join(root, '..'), { recursive: true });
  writeFileSync(root, '');
  expect(() => claimRun(root, PLAIN)).toThrow(/is a file, not a folder/);
  expect(() => claimRun(join(root, 'deeper'), PLAIN)).toThrow(/file, not a folder/);
});
