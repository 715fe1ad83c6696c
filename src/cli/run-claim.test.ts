import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { claimRun } from './run-claim.ts';

const PLAIN = { resume: false, fresh: false };
const RESUME = { resume: true, fresh: false };
const FRESH = { resume: false, fresh: true };
const CONFIG = JSON.stringify({ run: {}, model: {}, data: {}, rollout: {}, train: {}, lora: {} });
let root = '';
beforeEach(() => {
  root = join(mkdtempSync(join(tmpdir(), 'lexpo-claim-')), 'runs', 'demo');
});

function earlierRun(config: string): void {
  mkdirSync(join(root, 'adapters', 'demo-v0'), { recursive: true });
  writeFileSync(join(root, 'config.json'), config);
}

test('a new folder is made, locked, and free again afterwards; empty it goes', () => {
  const { begin, release } = claimRun(root, PLAIN);
  expect(readFileSync(join(root, '.lock'), 'utf8')).toMatch(new RegExp(`^${process.pid}\n`));
  begin();
  release();
  expect(existsSync(root)).toBe(false);
  const again = claimRun(root, PLAIN);
  writeFileSync(join(root, 'config.json'), CONFIG);
  again.release();
  expect(readdirSync(root)).toEqual(['config.json']);
});

test('--fresh empties a run of ours, but only once the run begins; --resume leaves it', () => {
  earlierRun(CONFIG);
  expect(() => claimRun(root, PLAIN)).toThrow(/--resume.*--fresh/);
  for (const options of [RESUME, FRESH]) {
    const { begin, release } = claimRun(root, options);
    // What the user gave may still prove wrong: nothing may be lost then.
    expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(true);
    begin();
    expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(options.resume);
    release();
  }
  expect(readdirSync(root)).toEqual([]);
});

test('--resume of nothing begins a run, since what restarts containers gives it always; it leaves nothing', () => {
  const { earlier, release } = claimRun(root, RESUME);
  expect(earlier).toBe(false);
  release();
  expect(existsSync(root)).toBe(false);
  earlierRun(CONFIG);
  const again = claimRun(root, RESUME);
  expect(again.earlier).toBe(true);
  again.release();
});

test('a start that failed before it began leaves no earlier run', () => {
  // The folder of adapters is there before the servers are asked, and a probe may lie in it.
  const first = claimRun(root, PLAIN);
  mkdirSync(join(root, 'adapters', 'demo-probe-0123abcd'), { recursive: true });
  first.release();
  expect(existsSync(root)).toBe(false);
  mkdirSync(join(root, 'adapters'), { recursive: true });
  claimRun(root, PLAIN).release();
  expect(readdirSync(root)).toEqual(['adapters']);
});

test('the log is no run, wherever it lies, and is never removed', () => {
  for (const log of [join(root, 'log.jsonl'), join(root, 'logs', 'deep', 'log.jsonl')]) {
    mkdirSync(dirname(log), { recursive: true });
    writeFileSync(log, 'line');
    claimRun(root, { ...PLAIN, log }).release();
    writeFileSync(join(root, 'config.json'), CONFIG);
    expect(() => claimRun(root, { ...PLAIN, log })).toThrow(/earlier run/);
    const { begin, release } = claimRun(root, { ...FRESH, log });
    begin();
    release();
    expect(existsSync(join(root, 'config.json'))).toBe(false);
    expect(readFileSync(log, 'utf8')).toBe('line');
    rmSync(root, { recursive: true });
  }
  // What lies beside it is somebody's.
  mkdirSync(join(root, 'logs'), { recursive: true });
  writeFileSync(join(root, 'logs', 'notes.txt'), 'mine');
  expect(() => claimRun(root, { ...PLAIN, log: join(root, 'logs', 'log.jsonl') })).toThrow(/earlier run/);
});

test('half-written files of a killed process are no earlier run, and go when the next one begins', () => {
  const left = [
    '.config.json.tmp-17-0',
    join('adapters', '.demo-v1.tmp-17-3'),
    join('checkpoints', '.x.tmp-1-1'),
  ];
  for (const name of left) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, left[1]!, 'adapter_config.json'), '{');
  earlierRun(CONFIG);
  const { begin, release } = claimRun(root, RESUME);
  begin();
  release();
  for (const name of left) expect(existsSync(join(root, name))).toBe(false);
  expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(true);
  rmSync(root, { recursive: true });
  mkdirSync(join(root, left[0]!), { recursive: true });
  expect(() => claimRun(root, PLAIN).release()).not.toThrow();
});

for (const [name, config] of [
  ['another JSON', '{"run": 1}'],
  ['broken JSON', '{'],
  ['null', 'null'],
] as const) {
  test(`--fresh keeps a folder whose config.json is ${name}`, () => {
    earlierRun(config);
    expect(() => claimRun(root, FRESH)).toThrow(/removes nothing/);
    expect(existsSync(join(root, 'adapters', 'demo-v0'))).toBe(true);
  });
}

test('a folder in use by a living process is refused, and kept', () => {
  earlierRun(CONFIG);
  writeFileSync(join(root, '.lock'), String(process.ppid));
  for (const options of [RESUME, FRESH])
    expect(() => claimRun(root, options)).toThrow(new RegExp(`in use by process ${process.ppid}`));
  expect(existsSync(join(root, 'config.json'))).toBe(true);
  expect(readFileSync(join(root, '.lock'), 'utf8')).toBe(String(process.ppid));
});

test('the lock of a process that was killed is taken over', () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  earlierRun(CONFIG);
  writeFileSync(join(root, '.lock'), String(pid));
  const { release } = claimRun(root, RESUME);
  expect(readFileSync(join(root, '.lock'), 'utf8')).toMatch(new RegExp(`^${process.pid}\n`));
  release();
  expect(readdirSync(root).sort()).toEqual(['adapters', 'config.json']);
});

test('a lock whose number is not written yet belongs to somebody who takes it just now', () => {
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, '.lock'), '');
  expect(() => claimRun(root, PLAIN)).toThrow(/in use by another process/);
  const longAgo = new Date(Date.now() - 60_000);
  utimesSync(join(root, '.lock'), longAgo, longAgo);
  claimRun(root, PLAIN).release();
  expect(readdirSync(root)).toEqual([]);
});

test('a file in place of the folder is a clear error', () => {
  mkdirSync(join(root, '..'), { recursive: true });
  writeFileSync(root, '');
  expect(() => claimRun(root, PLAIN)).toThrow(/is a file, not a folder/);
  expect(() => claimRun(join(root, 'deeper'), PLAIN)).toThrow(/file, not a folder/);
});

test('what a killed doctor left is no earlier run; anything beside it is', () => {
  const adapters = join(root, 'adapters');
  mkdirSync(join(adapters, 'demo-doctor-lq2x9k-v0'), { recursive: true });
  mkdirSync(join(adapters, 'demo-probe-0a1b2c3d'));
  mkdirSync(join(root, 'results'));
  writeFileSync(join(root, 'results', '.doctor-lq2x9k'), '');
  claimRun(root, PLAIN).release();
  const resumed = claimRun(root, RESUME);
  expect(resumed.earlier).toBe(false);
  resumed.release();
  for (const name of ['demo-v0', 'demo-doctor-v0', 'other-doctor-lq2x9k-v0']) {
    mkdirSync(join(adapters, name));
    expect(() => claimRun(root, PLAIN)).toThrow(/earlier run/);
    rmSync(join(adapters, name), { recursive: true });
  }
  writeFileSync(join(root, 'results', 's1-m0'), '');
  expect(() => claimRun(root, PLAIN)).toThrow(/earlier run/);
});

test('the same number on another machine, or in another container, says nothing: only its silence does', () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  earlierRun(CONFIG);
  const path = join(root, '.lock');
  for (const number of [pid, process.pid, 1]) {
    writeFileSync(path, `${number}\nfar boot pid:[1]\n`);
    const recent = new Date(Date.now() - 30_000);
    utimesSync(path, recent, recent);
    for (const options of [RESUME, FRESH])
      expect(() => claimRun(root, options)).toThrow(new RegExp(`in use by process ${number} on far`));
    expect(existsSync(join(root, 'config.json'))).toBe(true);
    const longAgo = new Date(Date.now() - 61_000);
    utimesSync(path, longAgo, longAgo);
    claimRun(root, RESUME).release();
  }
  expect(readdirSync(root).sort()).toEqual(['adapters', 'config.json']);
});

test('whoever lost the folder while asleep does not free it for a third one', () => {
  const { release } = claimRun(root, PLAIN);
  writeFileSync(join(root, '.lock'), '7\nfar boot pid:[1]\n');
  release();
  expect(readFileSync(join(root, '.lock'), 'utf8')).toContain('far');
});
