import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../src/base/test-support.ts';
import {
  adapterBytes,
  isFinished,
  metricsOf,
  newestCheckpoint,
  startRun,
  summaryOf,
} from './test-support-run.ts';

const scratch = temporaryFolder();
// What `npm test` has done already: the program would say that it compiles.
beforeAll(() => void execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' }));

const train = (dir: string, ...flags: string[]): ChildProcess =>
  startRun(dir, ['train.steps=6', 'train.evalEvery=3'], ...flags);
const trainAhead = (dir: string, ...flags: string[]): ChildProcess =>
  startRun(dir, ['train.steps=6', 'train.evalEvery=3', 'train.maxStaleness=1'], ...flags);

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

describe('a run that is killed and resumed', () => {
  it('leaves the same adapter bytes and metrics as one that was not', { timeout: 300_000 }, async () => {
    const whole = join(scratch, 'whole');
    await finish(train(whole));
    const broken = join(scratch, 'broken');
    await killOnce(train(broken), (output) => output.includes('warm start'));
    expect(newestCheckpoint(broken)).toBe(0);
    await killOnce(train(broken, '--resume'), () => newestCheckpoint(broken) >= 3);
    expect(isFinished(broken)).toBe(false);
    await finish(train(broken, '--resume'));
    for (const version of [3, 4, 6])
      expect(adapterBytes(broken, version).equals(adapterBytes(whole, version))).toBe(true);
    expect(metricsOf(broken)).toEqual(metricsOf(whole));
    expect(summaryOf(broken)).toEqual(summaryOf(whole));
  });

  it('also when steps are sampled ahead, by versions that are served again', {
    timeout: 300_000,
  }, async () => {
    const whole = join(scratch, 'whole-ahead');
    await finish(trainAhead(whole));
    const broken = join(scratch, 'broken-ahead');
    await killOnce(trainAhead(broken), () => newestCheckpoint(broken) >= 3);
    expect(isFinished(broken)).toBe(false);
    await finish(trainAhead(broken, '--resume'));
    for (const version of [3, 4, 6])
      expect(adapterBytes(broken, version).equals(adapterBytes(whole, version))).toBe(true);
    expect(metricsOf(broken)).toEqual(metricsOf(whole));
    expect(summaryOf(broken)).toEqual(summaryOf(whole));
    const ages = metricsOf(whole).flatMap((line) => line['policy/stalenessMax'] ?? []);
    expect(ages).toEqual([0, 1, 1, 1, 1, 1]);
  });
});
