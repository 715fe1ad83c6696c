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
  failedLastMinute: 0,
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

test('attempts that failed are told though no rollout ended well', () => {
  const none = { ...pool, doneLastMinute: null };
  expect(statusText({ ...base, pool: none })).toContain('no rollout was counted yet');
  expect(statusText({ ...base, pool: { ...none, failedLastMinute: 7 } })).toContain(
    '0 rollouts in the last whole minute, 7 attempts failed',
  );
});

test('a server is told as it is, once', () => {
  const server = { url: 'http://a:1', inRotation: null, adapters: [] };
  const line = (problem: string | null) => statusText({ ...base, replicas: [{ ...server, problem }] });
  expect(line('answers 401')).toMatch(/http:\/\/a:1 +answers 401 /);
  expect(line('answers 401')).not.toContain('does not answer');
  expect(line(null)).toMatch(/http:\/\/a:1 +answers /);
});

test('a configuration of retraining: its job, and not that nothing runs', () => {
  const retrain = {
    champion: 'demo-1-v2',
    job: 'demo-2 trains (process 7)',
    last: null,
    next: null,
    servers: [],
  };
  const text = statusText({ ...base, retrain });
  expect(text).not.toContain('nothing runs');
  expect(text).toContain('  job: demo-2 trains (process 7)\n');
  expect(statusText({ ...base, retrain: { ...retrain, job: null } })).toContain('job: none is under way');
});
