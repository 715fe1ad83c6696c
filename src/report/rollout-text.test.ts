import { expect, test } from 'vitest';
import type { Trajectory } from '../rollout/trajectory.ts';
import { rolloutText } from './rollout-text.ts';

const trajectory: Trajectory = {
  runId: 'demo',
  step: 0,
  queryId: 'q1',
  member: 0,
  policyVersion: 3,
  adapter: 'demo-v3',
  calls: [
    {
      role: 'planner',
      round: 0,
      promptIds: [1, 2, 3],
      outputIds: [4, 5],
      logprobs: [-0.5, -1],
      temperature: 1,
      finishReason: 'stop',
      text: '{"action": "rewrite_single"}',
      action: 'rewrite_single',
    },
    {
      role: 'rewrite_single',
      round: 0,
      promptIds: [1, 2],
      outputIds: [4],
      logprobs: [-2],
      temperature: 1,
      finishReason: 'length',
      text: '租赁合同\u001b[2J押金',
      action: null,
    },
    {
      role: 'planner',
      round: 1,
      promptIds: [1],
      outputIds: [9],
      logprobs: [-0.25],
      temperature: 1,
      finishReason: 'stop',
      text: 'terminate',
      action: 'terminate',
    },
  ],
  rounds: [
    {
      agent: 'rewrite_single',
      queries: ['租赁合同 押金'],
      dropped: [{ query: '旮旯', reason: 'unknown terms' }],
      newIds: ['a1', 'a2'],
      poolSize: 2,
    },
  ],
  pool: ['a2', 'a1'],
  termination: { kind: 'planner', reason: 'terminate' },
  ledger: {
    terms: [
      { name: 'recall', raw: 0.5, weight: 1, value: 0.5 },
      { name: 'step', raw: 1, weight: -0.05, value: -0.05 },
    ],
    total: 0.45,
  },
  advantage: 0.625,
  dropReason: null,
  timings: {},
};
const query = { id: 'q1', query: '房东不退押金怎么办', gold: ['a2', 'a9'] };

test('shows every call, round, reward term and advantage, in the order in which they happened', () => {
  const text = rolloutText(
    query,
    [
      { kind: 'ok', trajectory },
      { kind: 'failed', queryId: 'q1', member: 1, reason: 'deadline: 60 s' },
    ],
    true,
  );
  const expected = [
    'question q1: 房东不退押金怎么办',
    'gold: a2, a9',
    'member 0 of demo-v3',
    'round 1, planner: 3 + 2 tokens, -0.75 nats a token, finish stop, action rewrite_single',
    '{"action": "rewrite_single"}',
    'round 1, rewrite_single: 2 + 1 tokens, -2.00 nats a token, finish length',
    '租赁合同\\u001b[2J押金',
    'round 1 done by rewrite_single: 2 new, pool 2',
    'searched: 租赁合同 押金',
    'dropped (unknown terms): 旮旯',
    'new: a1 a2*',
    'round 2, planner: 1 + 1 tokens',
    'end: planner (terminate)',
    'pool of 2: a2* a1',
    'recall  0.500   1.000   0.500',
    'step    1.000  -0.050  -0.050',
    'reward      -       -   0.450',
    'advantage: 0.625',
    'member 1: failed, deadline: 60 s',
  ];
  let from = 0;
  for (const part of expected) {
    const at = text.indexOf(part, from);
    expect(at, part).toBeGreaterThanOrEqual(from);
    from = at + 1;
  }
  expect(text).not.toContain('\u001b');
});

test('without gold no reward is shown', () => {
  const text = rolloutText({ ...query, gold: [] }, [{ kind: 'ok', trajectory }], false);
  expect(text).not.toMatch(/reward +|advantage|gold:/);
  expect(text).toContain('no rewards: neither its gold nor an expected answer is known (--gold id,id)');
  expect(text).toContain('pool of 2: a2 a1');
});

test('a dropped group says why there is no advantage', () => {
  const dropped = { ...trajectory, advantage: null, dropReason: 'no variance' };
  expect(rolloutText(query, [{ kind: 'ok', trajectory: dropped }], true)).toContain(
    'advantage: none (no variance)',
  );
});

test('of the Lawyer also intent, evidence as shown, and the answer', () => {
  const evidence = [
    {
      source: 'statute' as const,
      id: 'a9',
      rank: 0,
      title: '第九条',
      text: '押金应当返还\u001b[2J',
      articles: ['a9'],
    },
  ];
  const lawyer: Trajectory = {
    ...trajectory,
    rounds: [{ ...trajectory.rounds[0]!, agent: 'STATUTE', intent: '要件', evidence }],
    answer: { by: 'votes (stand-in)', text: 'a9 a1', articles: ['a9', 'a1'], choices: [], number: null },
  };
  const text = rolloutText(query, [{ kind: 'ok', trajectory: lawyer }], true);
  expect(text).toContain('      intent: 要件\n');
  expect(text).toMatch(/ {6}statute a9: 押金应当返还\S*\n/);
  expect(text).toContain('  answer by votes (stand-in): a9* a1\n      a9 a1\n');
  expect(text).not.toContain('\u001b');
  expect(rolloutText(query, [{ kind: 'ok', trajectory }], true)).not.toContain('answer by');
});
