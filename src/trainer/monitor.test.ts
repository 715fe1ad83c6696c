import { afterEach, expect, test } from 'vitest';
import { type Config, configSchema } from '../config/schema.ts';
import type { RolloutPool } from '../rollout/pool/pool.ts';
import { type Monitor, openMonitor, watched, watchedPool } from './monitor.ts';

const config = (monitor: object): Config =>
  configSchema.parse({
    run: { name: 'demo' },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 1 },
    pool: {},
    monitor,
  });
let open: Monitor[] = [];
afterEach(async () => {
  await Promise.all(open.map((one) => one.close()));
  open = [];
});

async function start(role: 'trainer' | 'worker', settings: object) {
  const clock = { ms: 1_000_000 };
  const said: string[] = [];
  const monitor = await openMonitor({
    config: config(settings),
    role,
    now: () => clock.ms,
    say: (line) => void said.push(line),
  });
  open.push(monitor);
  const url = /http:\S+(?=\/metrics,)/.exec(said[0] ?? '')?.[0] ?? '';
  const get = async (path: string) => {
    const answer = await fetch(url + path);
    return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.text() };
  };
  return { monitor, clock, said, url, get };
}

test('nothing is opened unless the port of that role is given', async () => {
  expect((await start('worker', { port: 0 })).said).toEqual([]);
  expect((await start('trainer', { workerPort: 0 })).said).toEqual([]);
});

test("the trainer's metrics: series, outcomes, groups, policy", async () => {
  const { monitor, get } = await start('trainer', { port: 0 });
  const ok = { kind: 'ok' as const, trajectory: {} as never };
  const failed = { kind: 'failed' as const, queryId: 'q', member: 1, reason: 'r' };
  let at = 0;
  const pool = watchedPool<RolloutPool>(
    { rollOutGroup: async () => [ok, failed, ok] },
    monitor,
    () => (at += 700),
  );
  await pool.rollOutGroup({
    query: {} as never,
    policy: { version: 7, model: 'm' },
    step: 1,
    size: 3,
    firstMember: 0,
  });
  monitor.figures(1, { 'reward/mean': 0.5, 'time/learn': 250 });
  monitor.figures(1, { 'eval/recall': 0.25 });
  const { status, type, body } = await get('/metrics');
  expect({ status, type }).toEqual({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' });
  for (const line of [
    'lexpo_info{run="demo",role="trainer"} 1',
    'lexpo_step 1',
    'lexpo_policy_version 7',
    'lexpo_rollouts_total{outcome="ok"} 2',
    'lexpo_rollouts_total{outcome="failed"} 1',
    'lexpo_group_duration_seconds_bucket{le="0.5"} 0',
    'lexpo_group_duration_seconds_bucket{le="1"} 1',
    'lexpo_reward_mean 0.5',
    'lexpo_eval_recall 0.25',
    'lexpo_time_learn_seconds 0.25',
    'lexpo_redis_up 1',
  ])
    expect(body.split('\n')).toContain(line);
});

test('health: 503 with the reason once no step came for too long, 200 again after one', async () => {
  const { monitor, clock, get } = await start('trainer', { port: 0, stallMs: 5_000 });
  clock.ms += 5_000;
  expect(await get('/health')).toMatchObject({ status: 200, body: '{"ok":true}\n' });
  clock.ms += 1_000;
  expect(await get('/health')).toMatchObject({
    status: 503,
    body: expect.stringContaining('no step for 6 s'),
  });
  monitor.figures(1, {});
  expect((await get('/health')).status).toBe(200);
  expect((await get('/other')).status).toBe(404);
});

test("a worker's health and counts: Redis lost, a rollout that failed", async () => {
  const { monitor, clock, get } = await start('worker', { workerPort: 0, stallMs: 5_000 });
  clock.ms += 60_000;
  expect((await get('/health')).status).toBe(200);
  monitor.redis(false);
  clock.ms += 3_000;
  // Told again and again while it tries to connect: the time counts from the first.
  monitor.redis(false);
  clock.ms += 3_000;
  expect(await get('/health')).toMatchObject({
    status: 503,
    body: expect.stringContaining('without Redis for 6 s'),
  });
  monitor.redis(true);
  expect((await get('/health')).status).toBe(200);
  await watched(monitor, async () => 1);
  await expect(watched(monitor, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  const { body } = await get('/metrics');
  expect(body).toContain('lexpo_rollouts_total{outcome="ok"} 1\nlexpo_rollouts_total{outcome="failed"} 1\n');
  expect(body).toContain('lexpo_rollout_duration_seconds_count 2\n');
});

test('a port that is taken is told with the setting', async () => {
  const { url } = await start('trainer', { port: 0 });
  const port = Number(new URL(url).port);
  await expect(start('trainer', { port })).rejects.toThrow(
    /monitor\.port: cannot listen on 127\.0\.0\.1 port \d+ \(.*EADDRINUSE/,
  );
});
