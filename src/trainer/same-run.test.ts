import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { type Config, configSchema } from '../config/schema.ts';
import { runFolder, writeConfig } from './run-folder.ts';
import { changedSettings, checkSameRun } from './same-run.ts';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'lexpo-same-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const configOf = (change: object = {}): Config =>
  configSchema.parse({
    run: { name: 'demo', dir },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 3 },
    ...change,
  });

test('every setting that differs is named with both values; a key that came or went too', () => {
  expect(changedSettings({ a: { b: 1, c: [1, 2] }, d: 'x' }, { a: { b: 2, c: [1, 3] }, e: null })).toEqual([
    'a.b: 1, now 2',
    'a.c: [1,2], now [1,3]',
    'd: "x", now not set',
    'e: not set, now null',
  ]);
});

test('a resumed run may have more steps, keep other checkpoints, lie elsewhere, need less memory; nothing else', async () => {
  const folder = runFolder(configOf());
  await writeConfig(folder, configOf());
  await checkSameRun(folder, configOf({ run: { name: 'demo', dir: 'x' }, train: { steps: 9, keep: 4 } }));
  // Less memory: the same step in more passes.
  await checkSameRun(folder, configOf({ learner: { tokensPerPass: 2048, memory: { recompute: true } } }));
  const torch = (change: object) => configOf({ learner: { kind: 'torch', processes: 4, ...change } });
  await writeConfig(folder, torch({}));
  const nodes = { count: 2, address: 'a' };
  await checkSameRun(folder, torch({ processes: 2, nodes, gradientCheckpointing: true }));
  await expect(checkSameRun(folder, torch({ dtype: 'bfloat16' }))).rejects.toThrow(/learner.dtype/);
  await writeConfig(folder, configOf());
  const failure = checkSameRun(folder, configOf({ rollout: { groupSize: 4 }, sft: {} }));
  await expect(failure).rejects.toThrow(
    /demo: was started with another configuration\n {2}rollout.groupSize: 8, now 4\n/,
  );
  await expect(failure).rejects.toThrow(/sft.share: not set, now 0.3\n/);
  await expect(failure).rejects.toThrow(/--fresh/);
});

test('more steps are another run when the learning rate falls to 0 at the last one', async () => {
  const falling = (steps: number): Config =>
    configOf({ optimizer: { schedule: 'cosine' }, train: { steps } });
  const folder = runFolder(falling(3));
  await writeConfig(folder, falling(3));
  await checkSameRun(folder, falling(3));
  await expect(checkSameRun(folder, falling(9))).rejects.toThrow(/train.steps: 3, now 9\n/);
});

test('a folder without a configuration, or with a broken one, is a UserError', async () => {
  const folder = runFolder(configOf());
  await expect(checkSameRun(folder, configOf())).rejects.toThrow(/no run to go on with/);
  await writeConfig(folder, configOf());
  writeFileSync(folder.config, '{');
  const failure = checkSameRun(folder, configOf());
  await expect(failure).rejects.toThrow(/config.json: is not the configuration of a run/);
  await expect(failure).rejects.toBeInstanceOf(UserError);
});
