import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { findSource, publicName } from './source.ts';
import { makeRun, type TestRun, writeJson } from './test-support-run.ts';

let run: TestRun;
beforeEach(async () => {
  run = await makeRun();
  return () => {
    for (const folder of [run.scratch, run.base]) rmSync(folder, { recursive: true });
  };
});
const nameOf = (checkpoint?: string): string => findSource(run.root, checkpoint).name;

describe('of a run', () => {
  test('the chosen one, the last, the best, or one by its name; the folder may have been moved', () => {
    expect(findSource(run.root, undefined)).toMatchObject({
      adapterFolder: join(run.root, 'adapters', 'demo-v2'),
      name: 'demo-v2',
      run: { root: run.root, config: { run: { name: 'demo', seed: 5 } } },
    });
    expect([nameOf('last'), nameOf('best'), nameOf('demo-v0')]).toEqual(['demo-v4', 'demo-v2', 'demo-v0']);
    // A temporary folder of a killed process is no adapter, version 10 is newer than 4.
    for (const name of ['.demo-v12.tmp-1-0', 'demo-v10']) mkdirSync(join(run.root, 'adapters', name));
    expect(nameOf('last')).toBe('demo-v10');
  });

  test('a run that is not finished wants to know which', () => {
    rmSync(join(run.root, 'summary.json'));
    expect(() => nameOf()).toThrow(/is not finished[\s\S]*--checkpoint best[\s\S]*demo-v4/);
    expect([nameOf('last'), nameOf('best')]).toEqual(['demo-v4', 'demo-v2']);
    rmSync(join(run.root, 'checkpoints', 'step-000004'), { recursive: true });
    expect(() => nameOf('best')).toThrow(/no best adapter is known/);
    rmSync(join(run.root, 'checkpoints'), { recursive: true });
    expect(() => nameOf('best')).toThrow(UserError);
  });

  test('the summary of an end that was moved since chooses nothing', () => {
    const config = JSON.parse(readFileSync(join(run.root, 'config.json'), 'utf8'));
    writeJson(join(run.root, 'config.json'), { ...config, train: { ...config.train, steps: 9 } });
    expect(() => nameOf()).toThrow(/is not finished \(no summary.json of 9 steps\)/);
    expect(nameOf('last')).toBe('demo-v4');
  });

  test('what is missing or damaged is said', () => {
    expect(() => nameOf('demo-v3')).toThrow(/has no adapter demo-v3[\s\S]*demo-v0, demo-v2, demo-v4/);
    expect(() => nameOf('../config.json')).toThrow(/has no adapter/);
    writeFileSync(join(run.root, 'summary.json'), '{"adapter": ');
    expect(() => nameOf()).toThrow(/summary.json: cannot be read as JSON/);
    writeFileSync(join(run.root, 'config.json'), '{"run": ');
    expect(() => nameOf('last')).toThrow(/config.json: cannot be read as JSON/);
    writeJson(join(run.root, 'config.json'), { run: {}, train: {} });
    expect(() => nameOf('last')).toThrow(UserError);
    rmSync(join(run.root, 'config.json'));
    expect(() => nameOf('last')).toThrow(/neither a run nor an adapter/);
  });

  test('a run without any adapter', () => {
    rmSync(join(run.root, 'adapters'), { recursive: true });
    expect(() => nameOf()).toThrow(/has no adapter yet/);
  });
});

test('an adapter folder: with its run where it lies in one', () => {
  const inRun = join(run.root, 'adapters', 'demo-v4');
  expect(findSource(inRun, undefined)).toMatchObject({ name: 'demo-v4', run: { root: run.root } });
  expect(() => findSource(inRun, 'last')).toThrow(/is one adapter/);
  const alone = join(run.scratch, 'alone');
  writeJson(join(alone, 'adapter_config.json'), {});
  expect(findSource(alone, undefined)).toEqual({ adapterFolder: alone, name: 'alone', run: null });
});

test('what is neither', () => {
  const checkpoint = join(run.root, 'checkpoints', 'step-000004');
  writeJson(join(checkpoint, 'adapter', 'adapter_config.json'), {});
  for (const [target, text] of [
    [join(run.scratch, 'nowhere'), 'no such folder'],
    [join(run.root, 'config.json'), 'is a file'],
    [run.base, 'is it a model?'],
    [run.scratch, 'neither a run nor an adapter'],
    [checkpoint, 'is a checkpoint of a run'],
  ] as const) {
    expect(() => findSource(target, undefined)).toThrow(text);
    expect(() => findSource(target, undefined)).toThrow(UserError);
  }
});

describe('how others may call the base model', () => {
  let before = '';
  beforeAll(() => {
    before = process.cwd();
  });
  afterAll(() => process.chdir(before));

  test('never by a path of this machine', () => {
    process.chdir(run.scratch);
    mkdirSync('models/tiny', { recursive: true });
    for (const [path, name, hub] of [
      ['/home/me/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B/snapshots/0abc', 'Qwen/Qwen3-0.6B', true],
      ['C:\\hub\\models--a--b\\snapshots\\0', 'a/b', true],
      ['Qwen/Qwen3-4B', 'Qwen/Qwen3-4B', true],
      ['models/tiny', 'models/tiny', false],
      ['/home/me/my model/', 'my model', false],
      ['C:\\Users\\me\\tiny', 'tiny', false],
      ['~/tiny', 'tiny', false],
      ['../other/tiny', 'tiny', false],
      ['./models/tiny', 'tiny', false],
      ['a/b/c', 'a/b/c', false],
      ['/', 'unknown', false],
    ] as const)
      expect(publicName(path), path).toEqual({ name, hub });
  });
});
