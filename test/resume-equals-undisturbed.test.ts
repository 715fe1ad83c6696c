import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-resume-'));
// What `npm test` has done already: the program would say that it compiles.
beforeAll(() => void execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' }));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const SETTINGS = [
  'run.name=same',
  'train.steps=6',
  'train.evalEvery=3',
  'train.checkpointEvery=1',
  'rollout.queriesPerStep=3',
  'rollout.groupSize=4',
  'eval.queries=6',
  'sft.share=0.02',
  'sft.rolloutsPerQuery=1',
  'sft.epochs=1',
];

function train(dir: string, ...flags: string[]): ChildProcess {
  const settings = [...SETTINGS, `run.dir=${dir}`].flatMap((set) => ['--set', set]);
  const args = ['bin/lexpo.js', 'train', 'configs/quickstart.yaml', ...settings, ...flags];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
}

async function finish(child: ChildProcess): Promise<void> {
  let errors = '';
  child.stderr!.on('data', (chunk: Buffer) => {
    errors += chunk;
  });
  child.stdout!.resume();
  const [code] = await once(child, 'exit');
  expect(errors).toBe('');
  expect(code).toBe(0);
}

/** Kills a run as soon as `isTime` says so, given what the run has printed. */
async function killOnce(child: ChildProcess, isTime: (output: string) => boolean): Promise<void> {
  let output = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  child.stderr!.resume();
  const gone = once(child, 'exit');
  while (!isTime(output)) {
    expect(child.exitCode).toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  child.kill('SIGKILL');
  await gone;
}

/** The step of the newest whole checkpoint of a run, 0 before the first. */
function newestCheckpoint(dir: string): number {
  const folder = join(dir, 'same', 'checkpoints');
  if (!existsSync(folder)) return 0;
  return Math.max(0, ...readdirSync(folder).map((name) => Number(/^step-(\d+)$/.exec(name)?.[1] ?? 0)));
}

const adapterBytes = (dir: string, version: number): Buffer =>
  readFileSync(join(dir, 'same', 'adapters', `same-v${version}`, 'adapter_model.safetensors'));

/** The metrics without what a clock says. */
function metrics(dir: string): Record<string, number>[] {
  const lines = readFileSync(join(dir, 'same', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) =>
    Object.fromEntries(
      Object.entries(JSON.parse(line) as Record<string, number>).filter(
        ([name]) => !name.startsWith('time/'),
      ),
    ),
  );
}

describe('a run that is killed and resumed', () => {
  it('leaves the same adapter bytes and metrics as one that was not', { timeout: 300_000 }, async () => {
    const whole = join(scratch, 'whole');
    await finish(train(whole));
    const broken = join(scratch, 'broken');
    await killOnce(train(broken), (output) => output.includes('warm start'));
    expect(newestCheckpoint(broken)).toBe(0);
    await killOnce(train(broken, '--resume'), () => newestCheckpoint(broken) >= 3);
    expect(existsSync(join(broken, 'same', 'summary.json'))).toBe(false);
    await finish(train(broken, '--resume'));
    for (const version of [3, 4, 6])
      expect(adapterBytes(broken, version).equals(adapterBytes(whole, version))).toBe(true);
    expect(metrics(broken)).toEqual(metrics(whole));
    const summary = (dir: string) => {
      const {
        seconds: _,
        memory: ___,
        adapter: __,
        ...rest
      } = JSON.parse(readFileSync(join(dir, 'same', 'summary.json'), 'utf8'));
      return rest;
    };
    expect(summary(broken)).toEqual(summary(whole));
  });
});
