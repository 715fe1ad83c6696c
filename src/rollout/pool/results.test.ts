import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import type { Trajectory } from '../trajectory.ts';
import type { RolloutJob } from './job.ts';
import { DamagedResult, readResult, removeResults, resultPath, writeResult } from './results.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-results-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const job: RolloutJob = {
  run: 'demo',
  mark: 'm',
  step: 3,
  queryId: 'q',
  member: 2,
  attempt: 0,
  policy: { version: 2, model: 'demo-v2' },
  weights: 'w',
};
const trajectory = (about: Partial<Trajectory> = {}): Trajectory => ({
  runId: 'demo',
  step: 3,
  queryId: 'q',
  member: 2,
  policyVersion: 2,
  adapter: 'demo-v2',
  calls: [],
  rounds: [],
  pool: ['第一条', 'b'],
  termination: { kind: 'planner', reason: '' },
  ledger: { terms: [{ name: 'recall', raw: 1 / 3, weight: 1, value: 1 / 3 }], total: 1 / 3 },
  advantage: null,
  dropReason: null,
  timings: {},
  ...about,
});
const pathOf = (): string => join(folder, resultPath(job));

describe('a result', () => {
  it('comes back to the last bit, with the hash of its line', async () => {
    expect(await readResult(folder, job)).toBeNull();
    expect(await writeResult(folder, job, trajectory())).toEqual({ first: true });
    const found = await readResult(folder, job);
    expect(found?.trajectory).toEqual(trajectory());
    expect(await readResult(folder, job, found!.reference.sha256)).toEqual(found);
    expect(found!.reference.path).toBe(resultPath(job));
  });

  it('stays the first one, however many come at once, and nothing else is left', async () => {
    const written = await Promise.all(
      Array.from({ length: 20 }, (_, i) => writeResult(folder, job, trajectory({ timings: { i } }))),
    );
    const winner = written.findIndex(({ first }) => first);
    expect(written.filter(({ first }) => first)).toHaveLength(1);
    expect((await readResult(folder, job))?.trajectory.timings).toEqual({ i: winner });
    expect(await writeResult(folder, job, trajectory({ pool: [] }))).toEqual({ first: false });
    expect((await readResult(folder, job))?.trajectory.pool).toEqual(['第一条', 'b']);
    expect(readdirSync(dirname(pathOf()))).toHaveLength(1);
  });

  it('that was cut anywhere, or changed by a byte, is damaged', async () => {
    await writeResult(folder, job, trajectory());
    const whole = readFileSync(pathOf());
    for (let length = 0; length < whole.length; length += 7) {
      writeFileSync(pathOf(), whole.subarray(0, length));
      await expect(readResult(folder, job)).rejects.toThrow(DamagedResult);
    }
    for (let at = 0; at < whole.length; at += 11) {
      const changed = Buffer.from(whole);
      changed[at]! ^= 1;
      writeFileSync(pathOf(), changed);
      await expect(readResult(folder, job)).rejects.toThrow(DamagedResult);
    }
    writeFileSync(pathOf(), whole);
    await expect(readResult(folder, job, 'f'.repeat(64))).rejects.toThrow(/SHA-256/);
  });

  it('of another rollout is not taken, though it is whole', async () => {
    const foreign: Partial<Trajectory>[] = [
      { runId: 'other' },
      { step: 4 },
      { queryId: 'r' },
      { member: 3 },
      { policyVersion: 1 },
      { adapter: 'demo-v1' },
    ];
    for (const about of foreign) {
      await writeResult(folder, job, trajectory(about));
      await expect(readResult(folder, job)).rejects.toThrow('another rollout');
      rmSync(pathOf());
    }
    await writeResult(folder, job, trajectory());
    const other = { ...job, member: 5 };
    writeFileSync(join(folder, resultPath(other)), readFileSync(pathOf()));
    await expect(readResult(folder, other)).rejects.toThrow(/is the result of s3-m2/);
  });

  it('with values that JSON has no word for is damaged, not read as null', async () => {
    const ledger = { terms: [], total: Number.NaN };
    await writeResult(folder, job, trajectory({ ledger }));
    await expect(readResult(folder, job)).rejects.toThrow('no trajectory');
  });

  it('that cannot be written is a clear mistake', async () => {
    writeFileSync(join(folder, 'file'), '');
    await expect(writeResult(join(folder, 'file'), job, trajectory())).rejects.toThrow(UserError);
  });
});

it('removes the results of steps up to one, and nothing else', async () => {
  await removeResults(join(folder, 'absent'), 3);
  for (const step of [1, 3, 4]) await writeResult(folder, { ...job, step }, trajectory({ step }));
  mkdirSync(join(folder, 'step-x'));
  await removeResults(folder, 3);
  expect(readdirSync(folder).sort()).toEqual(['step-000004', 'step-x']);
  expect(existsSync(join(folder, resultPath({ ...job, step: 4 })))).toBe(true);
});
