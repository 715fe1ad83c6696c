import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../../src/base/errors.ts';
import { readAnnouncement } from '../../src/rollout/pool/redis-worker.ts';
import { resultPath, writeResult } from '../../src/rollout/pool/results.ts';
import { rollOutOnce } from '../../src/rollout/roll-out.ts';
import { RolloutFailure } from '../../src/rollout/rollout-failure.ts';
import {
  contextOf,
  createStage,
  groupsBy,
  POLICY,
  performWith,
  QUERIES,
  SAMPLING,
  type Stage,
  timeless,
  undisturbed,
} from './pool-support.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

let server: RedisServer;
let stage: Stage;
if (hasRedis) {
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    stage = createStage(server.url);
  });
  afterEach(() => stage.close());
}

const group = (step = 1, size = 4) => ({ query: QUERIES[0]!, policy: POLICY, step, size, firstMember: 0 });
const kinds = (results: { kind: string }[]): string[] => results.map(({ kind }) => kind);

describe.skipIf(!hasRedis)('groups by workers', () => {
  it('are those of one process, to the last bit, however many workers there are', async () => {
    const pool = await stage.pool();
    for (let i = 0; i < 3; i++) await stage.worker();
    for (const step of [1, 2])
      expect((await groupsBy(pool, step, 4)).map(timeless)).toEqual(await undisturbed(step, 4));
    expect(await pool.counts()).toMatchObject({
      ok: 48,
      failed: 0,
      failedAttempts: 0,
      duplicates: 0,
      forgotten: 0,
    });
  });

  it('are sampled again with the same seeds after what may heal, and with others after what does not', async () => {
    let broken = 0;
    const pool = await stage.pool();
    const asked: number[] = [];
    await stage.worker(async (call) => {
      asked.push(call.seed);
      if (broken++ < 3) throw new RolloutFailure('http', 'internal error', 500);
      return undefined;
    });
    expect(timeless(await pool.rollOutGroup(group()))).toEqual((await undisturbed(1, 4))[0]);
    expect(asked).toHaveLength(7);
    expect(new Set(asked).size).toBe(4);
    broken = Number.NEGATIVE_INFINITY;
    await stage.close();

    stage = createStage(server.url);
    const other = await stage.pool();
    const seeds = new Set<number>();
    await stage.worker(async (call) => {
      seeds.add(call.seed);
      throw new RolloutFailure('too-long', 'by far');
    });
    const results = await other.rollOutGroup(group());
    expect(results).toEqual(
      [0, 1, 2, 3].map((member) => ({ kind: 'failed', queryId: 'q0', member, reason: 'too-long: by far' })),
    );
    expect(seeds.size).toBe(8);
    expect(await other.counts()).toMatchObject({ ok: 0, failed: 4, failedAttempts: 8 });
  });

  it('close without a member that never answers, which is told as failed', async () => {
    const pool = await stage.pool({ groupDeadlineMs: 2_000, attempts: 1 });
    let hung = 0;
    const script = async () => {
      if (hung++ === 0) await sleep(60_000, undefined, { ref: false });
      return undefined;
    };
    await stage.worker(script, { drainMs: 100 });
    const results = await pool.rollOutGroup(group());
    expect(kinds(results).sort()).toEqual(['failed', 'ok', 'ok', 'ok']);
    const failed = results.find(({ kind }) => kind === 'failed')!;
    expect(failed).toMatchObject({ reason: expect.stringContaining('deadline: no result within 2000 ms') });
  });

  it('end a job at its deadline on the worker, and another attempt takes its place', async () => {
    const pool = await stage.pool({ attempts: 1 });
    let hung = 0;
    const script = async () => {
      if (hung++ === 0) await sleep(60_000, undefined, { ref: false });
      return undefined;
    };
    await stage.worker(script, { jobDeadlineMs: 200 });
    expect(kinds(await pool.rollOutGroup(group()))).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect(await pool.counts()).toMatchObject({ ok: 4, failedAttempts: 1 });
  });

  it('are taken from the files of a trainer that was killed, and the damaged one is made anew', async () => {
    const first = await stage.pool();
    const { stop, done } = await stage.worker();
    const before = timeless(await first.rollOutGroup(group()));
    stop();
    expect(await done).toBe(4);
    await first.close();
    const folder = join(stage.folder, 'results', 'step-000001');
    const [name] = readdirSync(folder);
    writeFileSync(join(folder, name!), readFileSync(join(folder, name!)).subarray(0, 100));

    const second = await stage.pool();
    const worker = await stage.worker();
    const after = timeless(await second.rollOutGroup(group()));
    const member = Number(/-m(\d)/.exec(name!)![1]);
    expect(after.filter((_, i) => i !== member)).toEqual(before.filter((_, i) => i !== member));
    expect(after[member]).toMatchObject({ member });
    expect(await second.counts()).toMatchObject({ ok: 4, failedAttempts: 1 });
    worker.stop();
    expect(await worker.done).toBe(1);
    await second.forget(1);
    expect(readdirSync(join(stage.folder, 'results'))).toEqual([]);
  });

  it('count once what two workers did: the first result stays', async () => {
    const pool = await stage.pool();
    const context = contextOf();
    await stage.worker(undefined, {
      // What another worker left that took up the job meanwhile.
      perform: async (job) => {
        const id = { purpose: 'train', step: job.step, member: job.member, attempt: job.attempt };
        const trajectory = await rollOutOnce(context, QUERIES[0]!, POLICY, SAMPLING, id);
        if (job.member < 3)
          await writeResult(join(stage.folder, 'results'), job, { ...trajectory, timings: { first: 1 } });
        return { ...trajectory, timings: { first: 0 } };
      },
    });
    const results = await pool.rollOutGroup(group());
    expect(results.map((r) => r.kind === 'ok' && r.trajectory.timings.first)).toEqual([1, 1, 1, 0]);
    // The count is of the whole life of the run in this Redis.
    expect(await pool.counts()).toMatchObject({ ok: 4, duplicates: 3 });
  });

  it('whose result is gone as soon as it was written are damaged, and made anew', async () => {
    const pool = await stage.pool();
    const results = join(stage.folder, 'results');
    await stage.worker(undefined, {
      perform: async (job, signal) => {
        if (job.attempt === 0) {
          mkdirSync(join(results, 'step-000001'), { recursive: true });
          symlinkSync(join(stage.folder, 'none'), join(results, resultPath(job)));
        }
        return performWith(contextOf())(job, signal);
      },
    });
    expect(kinds(await pool.rollOutGroup(group()))).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect(await pool.counts()).toMatchObject({ ok: 4, failedAttempts: 4 });
  });

  it('never have more than groupsAhead under way, and as many when there is work', async () => {
    const pool = await stage.pool({ groupsAhead: 2 });
    const redis = new Redis(server.url);
    const waiting: number[] = [];
    await stage.worker(
      async () => {
        waiting.push(await redis.zcard('test:run-groups:waiting-children'));
        return undefined;
      },
      { concurrency: 1 },
    );
    const results = await groupsBy(pool, 1, 2);
    redis.disconnect();
    expect(kinds(results.flat())).toEqual(Array(12).fill('ok'));
    expect(Math.max(...waiting)).toBe(2);
  });

  it('end the run for a mistake on a worker, with its text', async () => {
    const pool = await stage.pool();
    await stage.worker(undefined, {
      perform: async () => {
        throw new UserError('has no question q0', 'train.jsonl');
      },
    });
    await expect(pool.rollOutGroup(group())).rejects.toThrow(/train.jsonl: has no question q0/);
  });

  it('survive a Redis that was started again, and one that forgot everything', async () => {
    const pool = await stage.pool();
    const slow = async () => {
      await sleep(150);
      return undefined;
    };
    await stage.worker(slow, { concurrency: 2 });
    for (const [step, forget] of [
      [1, false],
      [2, true],
    ] as const) {
      const groups = groupsBy(pool, step, 2);
      await sleep(300);
      await server.restart({ signal: 'SIGKILL', forget, downMs: 200 });
      expect((await groups).map(timeless)).toEqual(await undisturbed(step, 2));
    }
    expect((await pool.counts()).forgotten).toBeGreaterThan(0);
    expect(stage.said.join('\n')).toContain('the connection is lost');
    expect(stage.said.join('\n')).toContain('is back');
  });
});

describe.skipIf(!hasRedis)('a worker', () => {
  it('with other facts takes no work, and says both values in one line', async () => {
    await stage.pool();
    const { done } = await stage.worker(undefined, { facts: { 'lexpo version': '1', 'rollout.topK': '5' } });
    const error = await done.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UserError);
    expect((error as UserError).what).toBe('run is trained with rollout.topK: 0 at the trainer, 5 here');
  });

  it('waits for the trainer, and leaves when it is told to', async () => {
    const { stop, done } = await stage.worker();
    while (!stage.said.some((line) => line.startsWith('waits for'))) await sleep(10);
    stop();
    expect(await done).toBe(0);
  });

  it('that is told to end finishes what is under way', async () => {
    const pool = await stage.pool();
    let started = (): void => {};
    const begun = new Promise<void>((resolve) => {
      started = resolve;
    });
    const { stop, done } = await stage.worker(async () => {
      started();
      await sleep(500);
      return undefined;
    });
    const results = pool.rollOutGroup(group(1, 4));
    await begun;
    stop();
    expect(await done).toBeGreaterThan(0);
    await stage.worker();
    expect(kinds(await results)).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect(await pool.counts()).toMatchObject({ failedAttempts: 0 });
  });

  it('that does not end in time gives its rollouts to others', async () => {
    const pool = await stage.pool();
    let asked = 0;
    const { stop, done } = await stage.worker(
      async () => {
        asked++;
        await sleep(60_000, undefined, { ref: false });
        return undefined;
      },
      { drainMs: 100 },
    );
    const results = pool.rollOutGroup(group());
    while (asked < 4) await sleep(10);
    stop();
    expect(await done).toBe(0);
    await stage.worker();
    expect(timeless(await results)).toEqual((await undisturbed(1, 4))[0]);
  });

  it('of another run in the same Redis meets none of this', async () => {
    const [one, two] = [await stage.pool(), await stage.pool({ run: 'run-2' })];
    const perform = async (): Promise<never> => {
      throw new UserError('took the rollout of another run', 'test');
    };
    await stage.worker(undefined, { run: 'run-2', perform });
    await stage.worker();
    expect(kinds(await one.rollOutGroup(group()))).toEqual(['ok', 'ok', 'ok', 'ok']);
    await expect(two.rollOutGroup(group())).rejects.toThrow('of another run');
  });
});

describe.skipIf(!hasRedis)('what the trainer announces', () => {
  it('stands in Redis when it says so, and is gone with the trainer', async () => {
    let servers: Record<string, string> = { 'http://127.0.0.1:1': 'first' };
    const pool = await stage.pool({ endpoints: () => servers });
    const redis = new Redis(server.url);
    try {
      const told = async () => (await readAnnouncement(redis, 'test', 'run'))?.endpoints;
      expect(await told()).toEqual(servers);
      for (const change of [{} as Record<string, string>, { 'http://127.0.0.1:1': 'second' }]) {
        servers = change;
        await pool.announce();
        expect(await told()).toEqual(change);
      }
      await pool.close();
      await pool.announce();
      expect(await told()).toBeUndefined();
    } finally {
      redis.disconnect();
    }
  });
});
