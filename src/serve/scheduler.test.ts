import { describe, expect, it } from 'vitest';
import { type CallLog, EOS, FAULT, fakeSession, referenceLogprobs } from '../../test/serve/fake-engine.ts';
import { stream } from '../base/random.ts';
import type { AdapterSlot } from './adapter-slots.ts';
import type { GenerateJob, SampleResult } from './protocol.ts';
import { argmaxToken, sampleToken } from './sample.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';

const BIAS = 0.5;
const limits = { maxRows: 256, cacheBytes: 2 ** 28, promptCacheBytes: 2 ** 20, prefillTokens: 4096 };

function setUp(overrides: Partial<typeof limits> = {}) {
  const log: CallLog = [];
  const session = fakeSession(log);
  const params = new Map([['bias', { shape: [1], data: Float32Array.of(BIAS) }]]);
  const slot = (uid: number): AdapterSlot => ({
    uid,
    name: `adapter ${uid}`,
    session,
    params: uid === 0 ? null : params,
    uses: 0,
    retired: false,
  });
  const slots = [slot(0), slot(1)];
  const scheduler = createScheduler(
    session,
    { ...limits, ...overrides },
    {
      get: (uid) => slots[uid],
      release: (one) => {
        one.uses--;
      },
    },
  );
  return { scheduler, slots, log };
}

const job = (id: number, more: Partial<GenerateJob> = {}): GenerateJob => ({
  id,
  adapter: 0,
  prompts: [[5, 6, 7]],
  n: 1,
  seed: id,
  maxTokens: 12,
  temperature: 1,
  topP: 1,
  topK: 0,
  stopIds: [EOS],
  score: false,
  salt: '',
  ...more,
});

async function drain(scheduler: Scheduler) {
  const results = scheduler.takeResults();
  for (let ticks = 0; scheduler.busy(); ticks++) {
    if (ticks > 10_000) throw new Error('the scheduler does not come to an end');
    await scheduler.tick();
    results.push(...scheduler.takeResults());
  }
  return results;
}

/** What a sample must be, from the ids alone: no cache, no batch. */
function reference(prompt: number[], asked: GenerateJob, i: number): Pick<SampleResult, 'ids' | 'logprobs'> {
  const random = stream(asked.seed + i, 'sample');
  const ids: number[] = [];
  const logprobs: number[] = [];
  while (ids.length < asked.maxTokens) {
    const row = referenceLogprobs(
      [...prompt, ...ids],
      asked.adapter === 0 ? 0 : BIAS,
      asked.temperature === 0 ? 1 : Math.fround(asked.temperature),
    );
    const token =
      asked.temperature === 0
        ? argmaxToken(row, 0, row.length)
        : sampleToken(row, 0, row.length, random.next());
    ids.push(token);
    logprobs.push(row[token]!);
    if (asked.stopIds.includes(token)) break;
  }
  return { ids, logprobs };
}

describe('samples', () => {
  it('are those of the model without cache or batch, in a crowd of 60 mixed requests', async () => {
    const random = stream(11, 'scheduler-test');
    const { scheduler, slots, log } = setUp({ maxRows: 20, prefillTokens: 300 });
    const jobs = Array.from({ length: 60 }, (_, id) =>
      job(id, {
        adapter: random.int(2),
        prompts: [Array.from({ length: 1 + random.int(60) }, () => 2 + random.int(80))],
        n: 1 + random.int(2),
        maxTokens: 1 + random.int(80),
        temperature: [0, 0.7, 1, 1.3][random.int(4)]!,
      }),
    );
    const results: SampleResult[] = [];
    for (const one of jobs) {
      scheduler.submit(one);
      // Some arrive while others run.
      if (random.next() < 0.3) await scheduler.tick();
    }
    results.push(...((await drain(scheduler)) as SampleResult[]));
    expect(results.length).toBe(jobs.reduce((sum, { n }) => sum + n, 0));
    for (const result of results) {
      const asked = jobs[result.id]!;
      const expected = reference(asked.prompts[0]!, asked, result.index);
      expect(result.ids).toEqual(expected.ids);
      expect(result.logprobs).toEqual(expected.logprobs);
      expect(result.finish).toBe(asked.stopIds.includes(result.ids.at(-1)!) ? 'stop' : 'length');
    }
    expect(Math.max(...log.map(([rows]) => rows))).toBeLessThanOrEqual(20);
    expect(new Set(log.map(([, capacity]) => capacity))).toEqual(new Set([0, 64, 128, 192]));
    expect(slots.map(({ uses }) => uses)).toEqual([0, 0]);
  });

  it('of one request differ and number i is that of seed + i', async () => {
    const { scheduler } = setUp();
    scheduler.submit(job(1, { seed: 40, n: 4 }));
    scheduler.submit(job(2, { seed: 42 }));
    const results = (await drain(scheduler)) as SampleResult[];
    const many = results.filter(({ id }) => id === 1).sort((a, b) => a.index - b.index);
    expect(new Set(many.map(({ ids }) => ids.join())).size).toBe(4);
    expect(results.find(({ id }) => id === 2)!.ids).toEqual(many[2]!.ids);
  });

  it('end with a stop token as their last id', async () => {
    const { scheduler } = setUp();
    const greedy = reference([5, 6, 7], job(0, { temperature: 0, stopIds: [] }), 0).ids;
    scheduler.submit(job(1, { temperature: 0, stopIds: [greedy[3]!] }));
    const [result] = (await drain(scheduler)) as SampleResult[];
    expect(result).toMatchObject({ finish: 'stop', ids: greedy.slice(0, greedy.indexOf(greedy[3]!) + 1) });
  });
});

describe('prompts', () => {
  it('shared by 8 requests of a group are prefilled once', async () => {
    const { scheduler, log } = setUp();
    for (let i = 0; i < 8; i++) scheduler.submit(job(i));
    await drain(scheduler);
    expect(log.filter(([, capacity]) => capacity === 0)).toEqual([[1, 0]]);
    expect(scheduler.stats()).toMatchObject({ prefilled: 1, prefixHits: 7 });
  });

  it('are found again later, but not under another adapter, salt or temperature', async () => {
    const { scheduler } = setUp();
    const prefills = async (more: Partial<GenerateJob>) => {
      const before = scheduler.stats().prefilled;
      scheduler.submit(job(1, more));
      await drain(scheduler);
      return scheduler.stats().prefilled - before;
    };
    expect(await prefills({})).toBe(1);
    expect(await prefills({})).toBe(0);
    expect(await prefills({ adapter: 1 })).toBe(1);
    expect(await prefills({ salt: 'v2' })).toBe(1);
    expect(await prefills({ temperature: 0.5 })).toBe(1);
    expect(await prefills({})).toBe(0);
    scheduler.forgetAdapter(0);
    expect(await prefills({})).toBe(1);
  });

  it('are scored at temperature 1, with ranks, and sampled as well', async () => {
    const { scheduler } = setUp();
    const prompt = [9, 4, 33, 70, 12];
    scheduler.submit(job(1, { prompts: [prompt], adapter: 1, temperature: 0.5, maxTokens: 3, score: true }));
    const results = await drain(scheduler);
    const score = results.find(({ kind }) => kind === 'score');
    const rows = prompt.map((_, i) => referenceLogprobs(prompt.slice(0, i), BIAS, 1));
    expect(score).toMatchObject({
      logprobs: [1, 2, 3, 4].map((i) => rows[i]![prompt[i]!]),
      ranks: [1, 2, 3, 4].map((i) => rows[i]!.filter((lp) => lp >= rows[i]![prompt[i]!]!).length),
    });
    const asked = job(1, { adapter: 1, temperature: 0.5, maxTokens: 3 });
    expect(results.find(({ kind }) => kind === 'sample')).toMatchObject(reference(prompt, asked, 0));
  });

  it('of one token have an empty score', async () => {
    const { scheduler } = setUp();
    scheduler.submit(job(1, { prompts: [[3]], maxTokens: 0, score: true }));
    expect(await drain(scheduler)).toMatchObject([{ kind: 'score', logprobs: [], ranks: [] }]);
  });
});

describe('limits', () => {
  it('hold the cache budget, yet a sequence larger than it runs alone', async () => {
    // One row of capacity 64: 2 × 2 layers × 2 heads × 4 × 64 × 4 bytes = 8 KiB.
    const { scheduler, log } = setUp({ cacheBytes: 3 * 8 * 1024 });
    for (let i = 0; i < 7; i++) scheduler.submit(job(i, { stopIds: [] }));
    scheduler.submit(job(8, { maxTokens: 300, stopIds: [] }));
    expect((await drain(scheduler)).length).toBe(8);
    expect(Math.max(...log.filter(([, capacity]) => capacity > 0).map(([rows]) => rows))).toBe(3);
    expect(log.filter(([, capacity]) => capacity > 64).every(([rows]) => rows === 1)).toBe(true);
  });
});

describe('trouble', () => {
  it('of one request is its own: the others of the batch go on', async () => {
    const { scheduler, slots } = setUp();
    scheduler.submit(job(1, { prompts: [[FAULT.nan, 5]] }));
    scheduler.submit(job(2));
    const results = await drain(scheduler);
    expect(results.find(({ id }) => id === 1)).toMatchObject({ kind: 'failed' });
    expect(results.find(({ id }) => id === 2)).toMatchObject(reference([5, 6, 7], job(2), 0));
    expect(slots[0]!.uses).toBe(0);
  });

  it.each([
    ['prefill', FAULT.prefillThrows],
    ['decode step', FAULT.stepThrows],
  ])('in a %s fails the request once, and frees what it held', async (where, token) => {
    const { scheduler, slots } = setUp();
    scheduler.submit(
      job(1, {
        prompts: [
          [token, 5],
          [5, 6],
        ],
        n: 3,
        stopIds: [],
      }),
    );
    const results = await drain(scheduler);
    const failed = results.filter(({ kind }) => kind === 'failed');
    expect(failed).toMatchObject([{ id: 1, message: expect.stringContaining(`${where} failed: injected`) }]);
    expect(scheduler.stats()).toMatchObject({ running: 0, waiting: 0 });
    expect(slots[0]!.uses).toBe(0);
    scheduler.submit(job(2));
    expect(await drain(scheduler)).toMatchObject([reference([5, 6, 7], job(2), 0)]);
  });

  it('in a step does not reach a row that moves to a wider batch at that moment', async () => {
    // 56 columns may lie idle: rows of 64 and of 128 columns are two batches, and one row leaves the other.
    const { scheduler, log } = setUp({ cacheBytes: 56 * 1024 });
    const ids = Array.from({ length: 127 }, (_, i) => 2 + (i % 80));
    const long = job(2, { prompts: [ids], stopIds: [] });
    const shorter = job(3, { prompts: [ids.slice(0, 120)], stopIds: [] });
    scheduler.submit(job(1, { prompts: [[FAULT.stepThrows, 5]], stopIds: [] }));
    scheduler.submit(long);
    scheduler.submit(shorter);
    const results = await drain(scheduler);
    const steps = log.filter(([, capacity]) => capacity > 0).slice(0, 4);
    expect(steps).toEqual([
      [1, 64],
      [2, 128],
      [1, 192],
      [1, 128],
    ]);
    expect(results.find(({ id }) => id === 2)).toMatchObject(reference(long.prompts[0]!, long, 0));
    expect(results.find(({ id }) => id === 3)).toMatchObject(reference(shorter.prompts[0]!, shorter, 0));
  });

  it('of a client that left: its rows are freed at once and nothing is reported', async () => {
    const { scheduler, slots } = setUp({ maxRows: 2 });
    scheduler.submit(job(1, { maxTokens: 4000, stopIds: [], n: 3 }));
    scheduler.submit(job(2));
    await scheduler.tick();
    expect(scheduler.stats()).toMatchObject({ running: 2, waiting: 2 });
    scheduler.cancel(1);
    const results = await drain(scheduler);
    expect(results.map(({ id }) => id)).toEqual([2]);
    expect(scheduler.stats().sampledTokens).toBeLessThan(30);
    expect(slots[0]!.uses).toBe(0);
  });

  it('with an adapter that is not there is said', async () => {
    const { scheduler, slots } = setUp();
    slots[1]!.retired = true;
    scheduler.submit(job(1, { adapter: 1 }));
    scheduler.submit(job(2, { adapter: 9 }));
    expect(await drain(scheduler)).toMatchObject([{ kind: 'failed' }, { kind: 'failed' }]);
  });
});
