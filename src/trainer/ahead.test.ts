import { describe, expect, it } from 'vitest';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import { dropStale, nextEarlier, sampleAhead } from './ahead.ts';
import type { Progress } from './checkpoint.ts';
import type { SampledStep } from './sample-step.ts';
import { tableTrajectory } from './test-support-rollout.ts';

const policyOf = (version: number): PolicyVersion => ({ version, model: `run-v${version}` });
const at = (step: number, version: number, about: Partial<Progress> = {}): Progress => ({
  step,
  policy: policyOf(version),
  startAdapter: 'run-v0',
  cursor: 10 * step,
  best: null,
  skippedInARow: 0,
  alarmsInARow: 0,
  seconds: 0,
  ...about,
});
const nothing = (cursor: number): SampledStep => ({ groups: [], failures: [], cursor });
/** The progress of a run whose every step publishes, except those in `idle`. */
function history(steps: number, depth: number, idle: readonly number[] = []): Progress[] {
  const out = [at(0, 0)];
  for (let step = 1; step <= steps; step++) {
    const before = out.at(-1)!;
    const version = idle.includes(step) ? before.policy.version : step;
    const earlier = nextEarlier(before, depth);
    out.push(at(step, version, earlier && { earlier }));
  }
  return out;
}

describe('sampleAhead', () => {
  /** What is started when, as `[step, version, cursor]`, when every step is taken and learnt in turn. */
  async function play(depth: number, steps: number, idle: readonly number[] = [], from = 0) {
    const started: number[][][] = [];
    const ahead = sampleAhead({
      depth,
      lastStep: steps,
      questionsPerStep: 10,
      sample: async (step, policy, cursor) => {
        started.at(-1)!.push([step, policy.version, cursor]);
        return nothing(cursor + 10);
      },
    });
    for (const progress of history(steps, depth, idle).slice(from, steps)) {
      started.push([]);
      ahead.fill(progress);
      expect((await ahead.take(progress.step + 1)).cursor).toBe(10 * (progress.step + 1));
    }
    await ahead.close();
    return started;
  }

  it('starts each step by the version of a fixed number of steps before, and no step twice', async () => {
    expect(await play(0, 3)).toEqual([[[1, 0, 0]], [[2, 1, 10]], [[3, 2, 20]]]);
    const one = [
      [1, 0, 0],
      [2, 0, 10],
    ];
    expect(await play(1, 4)).toEqual([one, [[3, 1, 20]], [[4, 2, 30]], []]);
    const two = [
      [1, 0, 0],
      [2, 0, 10],
      [3, 0, 20],
    ];
    expect(await play(2, 6)).toEqual([two, [[4, 1, 30]], [[5, 2, 40]], [[6, 3, 50]], [], []]);
    expect(await play(5, 2)).toEqual([
      [
        [1, 0, 0],
        [2, 0, 10],
      ],
      [],
    ]);
  });

  it('a step that published nothing leaves the version of the one before', async () => {
    expect((await play(1, 6, [2, 3])).flat().map(([step, version]) => [step, version])).toEqual([
      [1, 0],
      [2, 0],
      [3, 1],
      [4, 1],
      [5, 1],
      [6, 4],
    ]);
  });

  it('goes on from any step as if it had never stopped', async () => {
    for (const depth of [0, 1, 2, 3]) {
      const whole = (await play(depth, 8, [3])).flat();
      for (let from = 0; from < 8; from++) {
        const rest = (await play(depth, 8, [3], from)).flat();
        expect(rest).toEqual(whole.filter(([step]) => step! > from));
      }
    }
  });

  it('where a step may draw more questions, the next one begins after it, where it ended', async () => {
    const waiting: (() => void)[] = [];
    const cursors: number[] = [];
    const ahead = sampleAhead({
      depth: 2,
      lastStep: 9,
      questionsPerStep: null,
      sample: async (step, _policy, cursor) => {
        cursors.push(cursor);
        await new Promise<void>((resolve) => waiting.push(resolve));
        return nothing(cursor + 100 + step);
      },
    });
    ahead.fill(at(4, 4, { earlier: [policyOf(2), policyOf(3)] }));
    for (const wanted of [[40], [40, 145], [40, 145, 251]]) {
      await new Promise(setImmediate);
      expect(cursors).toEqual(wanted);
      waiting.shift()!();
    }
    await ahead.close();
  });

  it('gives up what is under way at its end, waits for it, and starts nothing that waited', async () => {
    let ended = 0;
    const begun: number[] = [];
    const ahead = sampleAhead({
      depth: 3,
      lastStep: 9,
      questionsPerStep: null,
      sample: async (step, _policy, _cursor, signal) => {
        begun.push(step);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        await new Promise(setImmediate);
        ended++;
        return nothing(0);
      },
    });
    ahead.fill(at(0, 0));
    await ahead.close();
    expect([begun, ended]).toEqual([[1], 1]);
  });
});

describe('dropStale', () => {
  const by = (version: number, member: number) =>
    tableTrajectory(1, [], () => [], { policyVersion: version, adapter: `run-v${version}`, member });
  const progress = at(9, 9, { earlier: [policyOf(4), policyOf(7), policyOf(7)] });

  it('counts versions published since, and takes out what is older than those in use', () => {
    const groups = [[by(4, 0), by(3, 1)], [by(9, 0), by(7, 1), by(8, 2)], [by(2, 0)]];
    const found = dropStale({ groups, failures: [], cursor: 5 }, progress);
    expect(found.sampled.groups.map((group) => group.map(({ policyVersion }) => policyVersion))).toEqual([
      [4],
      [9, 7],
      [],
    ]);
    expect(found.sampled.failures).toEqual([
      { kind: 'failed', queryId: 'q', member: 1, reason: 'stale: sampled by version 3, in use are 4, 7, 9' },
      { kind: 'failed', queryId: 'q', member: 2, reason: 'stale: sampled by version 8, in use are 4, 7, 9' },
      { kind: 'failed', queryId: 'q', member: 0, reason: 'stale: sampled by version 2, in use are 4, 7, 9' },
    ]);
    expect(found.staleness).toEqual({ mean: 1, max: 2, dropped: 3 });
  });

  it('counts none where there is none', () => {
    const failures = [{ kind: 'failed' as const, queryId: 'q', member: 0, reason: 'deadline' }];
    const found = dropStale({ groups: [[], []], failures, cursor: 5 }, progress);
    expect(found).toEqual({
      sampled: { groups: [[], []], failures, cursor: 5 },
      staleness: { mean: 0, max: 0, dropped: 0 },
    });
  });
});
