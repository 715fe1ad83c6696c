import { expect, test } from 'vitest';
import { type Status, statusText } from './status-text.ts';

const run: Status['run'] = {
  folder: '/runs/demo',
  state: 'absent',
  holder: null,
  step: 0,
  steps: 9,
  adapter: null,
  quietMs: null,
  metrics: {},
};
const counts = { waiting: 0, active: 0, delayed: 0, failed: 0 };
const pool: NonNullable<Status['pool']> = {
  trainer: { endpoints: {}, policy: { version: 3, model: 'demo-v3' } },
  rollouts: counts,
  groups: counts,
  workers: [],
  doneLastMinute: 48,
  failedLastMinute: null,
  duplicates: 0,
  oldest: null,
};
const base: Status = {
  name: 'demo',
  run,
  pool: null,
  staleness: null,
  replicas: [],
  retrain: null,
  problem: null,
};

test('a folder without a run: nothing runs, or the folder is another one than that of the trainer at work', () => {
  expect(statusText(base)).toBe('demo: nothing runs, and /runs/demo holds no run\n');
  const elsewhere = statusText({ ...base, pool });
  expect(elsewhere).toMatch(/^demo: \/runs\/demo holds no run, though .* run\.dir is right\n/);
  expect(elsewhere).not.toContain('nothing runs');
  expect(elsewhere).toContain('trainer: rolls out demo-v3');
  expect(elsewhere).toContain('48 rollouts in the last whole minute, 0 attempts failed');
  expect(statusText({ ...base, pool: { ...pool, trainer: null } })).toMatch(/nothing runs/);
});

test('a run at work: step, policy, how old its samples are, how long it is quiet', () => {
  const working = { ...run, state: 'running' as const, holder: 'process 7', step: 4, adapter: 'demo-v4' };
  const text = statusText({ ...base, run: { ...working, quietMs: 90_000 }, pool, staleness: 1 });
  expect(text).toMatch(
    /^demo: runs \(process 7\), last figures 1 min 30 s ago\nstep 4 of 9, policy demo-v4\n/,
  );
  expect(text).toContain('asked for 1 version behind the newest adapter');
  expect(statusText({ ...base, staleness: 2 })).toContain('asked for 2 versions behind');
});
