import { describe, expect, it } from 'vitest';
import type { Trajectory } from '../rollout/trajectory.ts';
import { assignCredit, type CreditConfig } from './credit.ts';

const config: CreditConfig = {
  scale: 'none',
  leaveOneOut: false,
  validity: 'joint',
  tolerance: 1e-6,
  stdFloor: 0,
  minGroup: 2,
};

function trajectory(total: number, rounds: number[], queryId = 'q', invalid = 0): Trajectory {
  const call = (round: number) => ({
    role: 'planner',
    round,
    promptIds: [1],
    outputIds: [2],
    logprobs: [-1],
    temperature: 1,
    finishReason: 'stop',
    text: '',
    action: null,
  });
  return {
    runId: 'r',
    step: 1,
    queryId,
    member: 0,
    policyVersion: 0,
    adapter: 'r-v0',
    calls: rounds.map(call),
    rounds: [],
    pool: [],
    termination: { kind: 'planner', reason: '' },
    ledger: { terms: [{ name: 'invalid', raw: invalid ? 1 : 0, weight: invalid, value: invalid }], total },
    advantage: null,
    dropReason: null,
    timings: {},
  };
}

describe('assignCredit', () => {
  it('gives every call of a trajectory its advantage; long trajectories do not bias the baseline', () => {
    const long = trajectory(1, [0, 0, 1, 1]);
    const short = trajectory(0, [0]);
    const { calls } = assignCredit([[long, short]], config);
    expect(calls.map((c) => c.advantage)).toEqual([0.5, 0.5, 0.5, 0.5, -0.5]);
    expect(long.advantage).toBe(0.5);
  });

  it('groups by the group given, also when two queries are the same text', () => {
    const { calls } = assignCredit(
      [
        [trajectory(1, [0], 'a'), trajectory(0, [0], 'a')],
        [trajectory(5, [0], 'b'), trajectory(4, [0], 'b')],
      ],
      config,
    );
    expect(calls.map((c) => c.advantage)).toEqual([0.5, -0.5, 0.5, -0.5]);
  });

  it('drops small and flat groups whole, counted and marked', () => {
    const flat = [trajectory(1, [0]), trajectory(1, [0])];
    const small = [trajectory(1, [0])];
    const { calls, dropped } = assignCredit([flat, small], config);
    expect(calls).toEqual([]);
    expect(dropped).toEqual({ 'no variance': 1, 'too few members': 1 });
    expect(flat.map((t) => [t.advantage, t.dropReason])).toEqual([
      [null, 'no variance'],
      [null, 'no variance'],
    ]);
  });

  it('return-to-go: a call is compared with the same round of the others', () => {
    const a = trajectory(1, [0, 1]);
    const b = trajectory(0.5, [0, 1]);
    const c = trajectory(0.2, [0]);
    const returns = new Map([
      [a, [1, 0.2]],
      [b, [0.5, 0.4]],
      [c, [0.2]],
    ]);
    const { calls } = assignCredit([[a, b, c]], { ...config, roundReturns: (t) => returns.get(t)! });
    const byRound = (t: Trajectory) => calls.filter((x) => x.trajectory === t).map((x) => x.advantage);
    expect(byRound(a)[1]).toBeCloseTo(-0.1, 10);
    expect(byRound(b)[1]).toBeCloseTo(0.1, 10);
    expect(byRound(c)[0]).toBeCloseTo(0.2 - 1.7 / 3, 10);
  });

  it('an invalid end is within the total, and is counted once', () => {
    const invalid = trajectory(-4, [0], 'q', -5);
    const { calls } = assignCredit([[trajectory(2, [0]), invalid]], config);
    expect(calls.map((c) => c.advantage)).toEqual([3, -3]);
    // Apart: the only valid member has nobody to be compared with, and the penalty alone is left.
    const apart = assignCredit([[trajectory(2, [0]), invalid]], { ...config, validity: 'separate' });
    expect(apart.calls.map((c) => c.advantage)).toEqual([2.5, -2.5]);
  });

  it('return-to-go: the returns hold the penalty of an invalid end, and it is counted once', () => {
    const roundReturns = (t: Trajectory) => [t.ledger.total];
    const { calls } = assignCredit([[trajectory(2, [0]), trajectory(-4, [0], 'q', -5)]], {
      ...config,
      roundReturns,
    });
    expect(calls.map((c) => c.advantage)).toEqual([3, -3]);
  });
});
