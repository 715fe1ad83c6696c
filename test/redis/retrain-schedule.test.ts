import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import type { HistoryRecord } from '../../src/trainer/retrain/records.ts';
import { takeRedisLock } from '../../src/trainer/retrain/redis-lock.ts';
import { currentChampion, readHistory } from '../../src/trainer/retrain/registry.ts';
import { lockRegistry } from '../../src/trainer/retrain/registry-lock.ts';
import {
  listSchedules,
  removeSchedule,
  runNow,
  type ScheduleStore,
  setSchedule,
  workSchedules,
} from '../../src/trainer/retrain/schedule.ts';
import { fakeTools, newPlace, type Place } from '../../src/trainer/retrain/test-support-retrain.ts';
import type { RetrainTools } from '../../src/trainer/retrain/work.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-schedule-'));
let server: RedisServer;
let ends: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  if (hasRedis) server = await startRedis();
});
afterEach(async () => {
  for (const end of ends) await end();
  ends = [];
});
afterAll(async () => {
  await server?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

let prefixes = 0;
async function newStore(): Promise<ScheduleStore> {
  const prefix = `test${prefixes++}`;
  return { redis: await connect(prefix), prefix };
}
async function connect(prefix: string) {
  const redis = await openRedis({ url: server.url, prefix }, { withinMs: 10_000, say: () => {} });
  ends.push(async () => redis.disconnect());
  return redis;
}

/** A worker within this process; gives what its jobs came to. */
function startWorker(store: ScheduleStore, tools: RetrainTools, lockMs = 1_000) {
  const controller = new AbortController();
  const ended: HistoryRecord[] = [];
  const done = workSchedules({
    ...store,
    tools,
    lockMs,
    signal: controller.signal,
    onEnd: (end) => void (end.kind === 'ended' && ended.push(end.record)),
  });
  const stop = async () => {
    controller.abort();
    await done;
  };
  ends.unshift(stop);
  return { ended, stop };
}

const newRegistry = (name: string, ...change: string[]): Place => newPlace(change, join(scratch, name));
const NAMES = [1, 2].map((n) => `nightly-20261201-${n}-v3`);

describe.skipIf(!hasRedis)('schedules on a real Redis', () => {
  test('are set, replaced, listed and removed; what is no pattern or zone is said', async () => {
    const store = await newStore();
    const { config } = newRegistry('set');
    const next = await setSchedule(store, config, { cron: '0 3 * * *', tz: 'Europe/Berlin' });
    const berlin = new Intl.DateTimeFormat('en', {
      timeZone: 'Europe/Berlin',
      hour: 'numeric',
      hour12: false,
    });
    expect(berlin.format(next)).toBe('03');
    expect(next.getTime()).toBeGreaterThan(Date.now());
    await setSchedule(store, config, { cron: '30 4 * * 1', tz: 'UTC' });
    const other = { ...config, run: { ...config.run, name: 'other' } };
    await setSchedule(store, other, { cron: '*/5 * * * * *', tz: 'UTC' });
    const { registry } = config.retrain!;
    expect(await listSchedules(store)).toEqual([
      { name: 'nightly', cron: '30 4 * * 1', tz: 'UTC', next: expect.any(Date), registry },
      { name: 'other', cron: '*/5 * * * * *', tz: 'UTC', next: expect.any(Date), registry },
    ]);
    await removeSchedule(store, 'other');
    await expect(removeSchedule(store, 'other')).rejects.toThrow(/other: has no schedule/);
    expect(await listSchedules(store)).toHaveLength(1);
    for (const cron of ['nightly', '0 3 * *', '99 3 * * *', '0 3 * * x', ''])
      await expect(setSchedule(store, config, { cron, tz: 'UTC' })).rejects.toThrow(/--cron/);
    await expect(setSchedule(store, config, { cron: '0 3 * * *', tz: 'Berlin' })).rejects.toThrow(/--tz/);
  });

  test('a job fired by its pattern promotes a better challenger and refuses a worse one', async () => {
    const store = await newStore();
    const place = newRegistry('fired');
    const worth = (name: string | null) => (name === NAMES[0] ? 0.5 : name === null ? 0.25 : 0.125);
    const { ended } = startWorker(store, fakeTools(worth));
    place.put(0, 5);
    await setSchedule(store, place.config, { cron: '*/1 * * * * *', tz: 'UTC' });
    await expect.poll(() => ended.map(({ kind }) => kind), { timeout: 20_000 }).toContain('promoted');
    expect(currentChampion(place.registry)).toBe(NAMES[0]);
    place.put(5, 9);
    await expect.poll(() => ended.map(({ kind }) => kind), { timeout: 20_000 }).toContain('refused');
    expect(currentChampion(place.registry)).toBe(NAMES[0]);
    const refused = readHistory(place.registry).find(({ kind }) => kind === 'refused')!;
    expect(refused).toMatchObject({
      by: { trigger: 'schedule' },
      figures: { champion: 0.5, challenger: 0.125 },
    });
    expect(readHistory(place.registry)).toEqual(ended);
  });

  test('of overlapping schedules and workers one trains, and the others are skipped', async () => {
    const store = await newStore();
    const place = newRegistry('overlap');
    place.put(0, 5);
    let [training, most] = [0, 0];
    const slow = (): RetrainTools => {
      const tools = fakeTools(() => 0.25);
      return {
        ...tools,
        async train(...args) {
          most = Math.max(most, ++training);
          await sleep(2_500);
          training--;
          return tools.train(...args);
        },
      };
    };
    const workers = [0, 1].map(() => startWorker(store, slow(), 1_000));
    const all = () => workers.flatMap(({ ended }) => ended.map(({ kind }) => kind));
    await runNow(store, place.config);
    // Another name, the same registry.
    await runNow(store, { ...place.config, run: { ...place.config.run, name: 'other' } });
    await expect.poll(() => all().sort(), { timeout: 20_000 }).toEqual(['refused', 'skipped']);
    expect(most).toBe(1);
    expect(readHistory(place.registry).map(({ kind }) => kind)).toEqual(['skipped', 'refused']);
  });

  test('a registry in use by hand is left alone', async () => {
    const store = await newStore();
    const place = newRegistry('hand');
    place.put(0, 5);
    const lock = await lockRegistry(place.registry.root, new Date(0));
    const { ended } = startWorker(
      store,
      fakeTools(() => 0.25),
    );
    await runNow(store, place.config);
    await expect.poll(() => ended.map(({ kind }) => kind), { timeout: 20_000 }).toEqual(['skipped']);
    if (!('heldBy' in lock)) lock.release();
    await runNow(store, place.config);
    await expect.poll(() => ended.length, { timeout: 20_000 }).toBe(2);
    expect(ended[1]).toMatchObject({ kind: 'refused' });
  });

  test('a worker that is told to leave hands its job on', async () => {
    const store = await newStore();
    const place = newRegistry('leave');
    place.put(0, 5);
    let begun = false;
    const tools = fakeTools(() => 0.25);
    const first = startWorker(store, {
      ...tools,
      train: (_, signal) =>
        new Promise((done) => {
          begun = true;
          signal.addEventListener('abort', () => done(null));
        }),
    });
    await runNow(store, place.config);
    await expect.poll(() => begun, { timeout: 20_000 }).toBe(true);
    await first.stop();
    expect(first.ended).toEqual([]);
    const second = startWorker({ ...store, redis: await connect(store.prefix) }, tools);
    await expect
      .poll(() => second.ended.map(({ kind, run }) => [kind, run]), { timeout: 20_000 })
      .toEqual([['refused', 'nightly-20261201-1']]);
  });
});

describe.skipIf(!hasRedis)('the lock in Redis', () => {
  const { signal } = new AbortController();
  const settings = { leastFence: 1, ttlMs: 300, signal };

  test('has one holder, is renewed for as long as that lives, and its fence rises', async () => {
    const { redis } = await newStore();
    const first = (await takeRedisLock(redis, 'a', settings))!;
    expect(first.fence).toBe(1);
    expect(await takeRedisLock(redis, 'a', settings)).toBe(null);
    expect(first.lost.aborted).toBe(false);
    await first.release();
    const second = (await takeRedisLock(redis, 'a', { ...settings, leastFence: 7 }))!;
    expect(second.fence).toBe(7);
    await second.release();
    const third = (await takeRedisLock(redis, 'a', settings))!;
    expect(third.fence).toBe(8);
    await third.release();
  });

  test('of a holder that died is free after its time; one that lost it is told, and frees nobody else’s', async () => {
    const { redis } = await newStore();
    const first = (await takeRedisLock(redis, 'b', settings))!;
    await redis.set('b', 'somebody else', 'PX', 400);
    await expect.poll(() => first.lost.aborted).toBe(true);
    await first.release();
    expect(await redis.get('b')).toBe('somebody else');
    const next = (await takeRedisLock(redis, 'b', { ...settings, ttlMs: 600 }))!;
    expect(next.fence).toBe(2);
    await next.release();
  });

  test('is lost when Redis is away for longer than it lasts', async () => {
    const { redis } = await newStore();
    const lock = (await takeRedisLock(redis, 'c', settings))!;
    await server.restart({ downMs: 600 });
    await expect.poll(() => lock.lost.aborted, { timeout: 5_000 }).toBe(true);
    await lock.release();
  });
});
