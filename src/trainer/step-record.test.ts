import { expect, test } from 'vitest';
import type { StepOutcome } from './loop.ts';
import { stepLine, stepMetrics } from './step-record.ts';
import { tableTrajectory } from './test-support-rollout.ts';

const member = (reward: number, tokens: number, kind: 'planner' | 'invalid' = 'planner') =>
  tableTrajectory(reward, [[[1], new Array<number>(tokens).fill(2)]], (_, ids) => ids.map(() => -1), {
    pool: ['a1', 'a2'],
    termination: { kind, reason: '' },
  });

const outcome: StepOutcome = {
  step: 1,
  sampled: {
    groups: [[member(1, 3), member(0, 2)], [member(0.5, 1), member(0.5, 4, 'invalid')], []],
    failures: [{ kind: 'failed', queryId: 'q', member: 0, reason: 'deadline' }],
    cursor: 3,
  },
  dropped: { 'no variance': 1, 'too few members': 2 },
  staleness: null,
  update: null,
  learningRate: 0.25,
  alarms: [],
  alarmsInARow: 0,
  seconds: { sample: 2, learn: 0.5, publish: 0.125 },
};

test('the series of a step, by hand', () => {
  expect(stepMetrics(outcome)).toMatchObject({
    'reward/mean': 0.5,
    'reward/recall': 0.5,
    // Deviations 0.5 and 0; the empty group has none.
    'reward/std': 0.25,
    'rollout/invalidRate': 0.25,
    'rollout/meanRounds': 0,
    'rollout/meanPool': 2,
    'rollout/failed': 1,
    'groups/dropped': 3,
    'groups/zeroVariance': 1,
    'policy/entropy': undefined,
    'learn/rate': 0.25,
    'tokens/sampled': 10,
    'tokens/trained': undefined,
    'time/rollout': 2000,
    'time/learn': 500,
    'time/publish': 125,
  });
});

test('staleness has its series only where steps are sampled ahead', () => {
  const names = ['rollout/stale', 'policy/staleness', 'policy/stalenessMax'] as const;
  const of = (staleness: StepOutcome['staleness']) => {
    const values = stepMetrics({ ...outcome, staleness });
    return names.map((name) => values[name]);
  };
  expect(of(null)).toEqual([undefined, undefined, undefined]);
  expect(of({ mean: 0.5, max: 1, dropped: 3 })).toEqual([3, 0.5, 1]);
});

test('a step without any rollout has figures too', () => {
  const nothing = { ...outcome, sampled: { ...outcome.sampled, groups: [[], []] } };
  expect(stepMetrics(nothing)).toMatchObject({ 'reward/mean': 0, 'reward/std': 0, 'tokens/sampled': 0 });
});

test('the line shows a dash for what was not measured', () => {
  expect(stepLine(stepMetrics(outcome))).toBe('reward 0.500  recall 0.500  rounds 0.00  entropy -  kl -');
  expect(stepLine({ ...stepMetrics(outcome), 'policy/entropy': 1.234, 'policy/kl': 0.01 })).toMatch(
    /entropy 1\.23 {2}kl 0\.010$/,
  );
});
