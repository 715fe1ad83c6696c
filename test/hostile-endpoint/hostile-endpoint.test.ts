/** The hostile endpoint itself: honest when nothing is scripted, and each fault as it says. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { writeAdapter } from '../../src/engine/peft.ts';
import type { Adapter } from '../../src/engine/types.ts';
import { createEndpoint, RolloutFailure } from '../../src/rollout/endpoint.ts';
import { tableAdapter, tableModel } from '../../src/trainer/test-support.ts';
import type { Lie } from './faults.ts';
import {
  adapterShift,
  type Fault,
  fakeModel,
  type HostileEndpoint,
  promptLogprobs,
  type Rule,
  startHostileEndpoint,
} from './hostile-endpoint.ts';
import { playScript } from './script.ts';

let folder: string;
const adapters: Record<string, Adapter> = {};
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-hostile-'));
  for (const [name, spread, seed] of [
    ['v1', 0.3, 1],
    ['v2', 0.3, 2],
    ['zero', 0, 3],
  ] as const) {
    adapters[name] = tableAdapter(tableModel(8), spread, seed);
    await writeAdapter(join(folder, name), adapters[name], { baseModel: 'base' });
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

let server: HostileEndpoint;
afterEach(() => server?.close());
const start = async (script: Rule[] = []) => {
  server = await startHostileEndpoint(script);
  return createEndpoint({ baseUrl: server.url, deadlineMs: 400, maxConcurrent: 4 });
};
const IDS = [5, 6, 7, 9];
const call = (model: string, seed = 3) => ({
  model,
  promptIds: IDS,
  maxTokens: 5,
  temperature: 1,
  seed,
  stopTokenIds: [],
});
const failure = async (promise: Promise<unknown>): Promise<RolloutFailure> => {
  const error = await promise.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RolloutFailure);
  return error as RolloutFailure;
};
const near = (a: readonly number[], b: readonly number[]): void => {
  expect(a.length).toBe(b.length);
  for (const [i, value] of a.entries()) expect(value).toBeCloseTo(b[i]!, 6);
};

describe('honest', () => {
  it('answers with the tensors as they were when they were loaded', async () => {
    const endpoint = await start();
    await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
    near(await endpoint.promptLogprobs('run-v1', IDS), promptLogprobs(fakeModel, IDS, adapters.v1!));
    near(await endpoint.promptLogprobs('base', IDS), promptLogprobs(fakeModel, IDS, null));
    const copy = join(folder, 'moving');
    await writeAdapter(copy, adapters.v1!, { baseModel: 'base' });
    await endpoint.loadAdapter('moving', copy);
    rmSync(copy, { recursive: true });
    await writeAdapter(copy, adapters.v2!, { baseModel: 'base' });
    near(await endpoint.promptLogprobs('moving', IDS), promptLogprobs(fakeModel, IDS, adapters.v1!));
  });

  it('samples what its log-probabilities say: they sum to one, and samples have their own', async () => {
    const endpoint = await start();
    const row = fakeModel.logprobs(IDS, null, 1);
    expect(Array.from(row).reduce((sum, x) => sum + Math.exp(x), 0)).toBeCloseTo(1, 9);
    const counts = new Map<number, number>();
    for (let seed = 0; seed < 400; seed++) {
      const { outputIds, logprobs } = await endpoint.complete({ ...call('base', seed), maxTokens: 1 });
      expect(logprobs[0]).toBeCloseTo(row[outputIds[0]!]!, 6);
      counts.set(outputIds[0]!, (counts.get(outputIds[0]!) ?? 0) + 1);
    }
    for (let id = 0; id < fakeModel.vocab; id++) {
      const expected = 400 * Math.exp(row[id]!);
      expect(Math.abs((counts.get(id) ?? 0) - expected)).toBeLessThan(5 * Math.sqrt(expected) + 3);
    }
  });

  it('an adapter without effect shifts nothing, and every other one something else', () => {
    expect(adapterShift(adapters.zero!)).toBe(0);
    expect(adapterShift(null)).toBe(0);
    const shifts = [adapters.v1!, adapters.v2!].map(adapterShift);
    // A is the identity: the sum of all entries of B
    const sums = [adapters.v1!, adapters.v2!].map(({ tensors }) =>
      [...tensors].find(([name]) => name.includes('lora_B'))![1].data.reduce((a, b) => a + b, 0),
    );
    near(shifts, sums);
    expect(Math.abs(shifts[0]! - shifts[1]!)).toBeGreaterThan(0.1);
  });
});

describe('a lie in an answer', () => {
  const LIES: [Lie, string, RegExp][] = [
    ['no-token-ids', 'invalid-answer', /return_token_ids/],
    ['other-prompt-ids', 'invalid-answer', /prompt_token_ids/],
    ['logprob-missing', 'invalid-answer', /log-probabilities for/],
    ['logprob-added', 'invalid-answer', /log-probabilities for/],
    ['logprob-nan', 'invalid-answer', /./],
    ['logprob-impossible', 'invalid-answer', /-9999/],
    ['logprob-positive', 'invalid-answer', /0.5/],
    ['other-model', 'wrong-model', /base-other/],
    ['aborted', 'invalid-answer', /abort/],
    ['usage', 'invalid-answer', /usage/],
    ['no-choices', 'invalid-answer', /choices/],
    ['no-tokens', 'invalid-answer', /0 output tokens/],
  ];
  it.each(LIES)('is found out: %s', async (lie, reason, message) => {
    const endpoint = await start([{ route: 'completions', nth: 1, fault: { kind: 'lie', lie } }]);
    const found = await failure(endpoint.complete(call('base')));
    expect(found.reason).toBe(reason);
    expect(found.message).toMatch(message);
    expect(server.seen).toMatchObject([{ fault: { kind: 'lie' }, applied: true }]);
    expect((await endpoint.complete(call('base'))).outputIds.length).toBeGreaterThan(0);
  });

  it.each(['logprob-nan', 'logprob-impossible', 'logprob-positive'] as const)(
    'in a proof too: %s',
    async (lie) => {
      const endpoint = await start([{ route: 'score', fault: { kind: 'lie', lie } }]);
      expect((await failure(endpoint.promptLogprobs('base', IDS))).reason).toBe('invalid-answer');
    },
  );
});

describe('a broken answer', () => {
  const BROKEN: [Fault, RegExp, boolean][] = [
    [{ kind: 'html' }, /invalid-answer/, true],
    [{ kind: 'empty' }, /invalid-answer/, true],
    [{ kind: 'truncated-json' }, /invalid-answer/, true],
    [{ kind: 'wrong-length' }, /connection/, true],
    [{ kind: 'hang' }, /deadline/, false],
    [{ kind: 'hang-mid-body' }, /deadline/, true],
    [{ kind: 'reset-before' }, /connection/, false],
    [{ kind: 'reset-after' }, /connection/, true],
    [{ kind: 'reset-mid-body' }, /connection/, true],
    [{ kind: 'crash' }, /connection/, false],
    [{ kind: 'slow', ms: 600 }, /deadline/, true],
    [{ kind: 'status', status: 500 }, /http/, false],
    [{ kind: 'status', status: 503, shape: 'empty' }, /http/, false],
    [{ kind: 'status', status: 400, shape: 'flat', message: 'old' }, /http/, false],
    [{ kind: 'status', status: 502, shape: 'html' }, /http/, false],
    [{ kind: 'status', status: 500, shape: 'text' }, /http/, false],
    [{ kind: 'status', status: 429 }, /overloaded/, false],
  ];
  it.each(BROKEN)('%j is a failure of its own reason', async (fault, reason, applied) => {
    const endpoint = await start([{ route: 'completions', fault }]);
    expect((await failure(endpoint.complete(call('base')))).reason).toMatch(reason);
    while (fault.kind === 'slow' && !server.seen[0]!.applied) await sleep(5);
    for (const one of server.seen) expect(one).toMatchObject({ fault, applied });
  });
});

describe('a load', () => {
  const truth = (adapter: Adapter | null) => promptLogprobs(fakeModel, IDS, adapter);
  const second = (kind: 'load-as-base' | 'load-as-previous' | 'load-unlisted' | 'load-ignored') =>
    start([{ route: 'load', nth: 2, fault: { kind } }]);
  const loadBoth = async (endpoint: Awaited<ReturnType<typeof start>>) => {
    await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
    await endpoint.loadAdapter('run-v2', join(folder, 'v2'));
  };

  it('may say 200 and serve the base model, or the one before', async () => {
    let endpoint = await second('load-as-base');
    await loadBoth(endpoint);
    near(await endpoint.promptLogprobs('run-v2', IDS), truth(null));
    await server.close();
    endpoint = await second('load-as-previous');
    await loadBoth(endpoint);
    near(await endpoint.promptLogprobs('run-v2', IDS), truth(adapters.v1!));
  });

  it('may say 200 and not be listed, or not be there at all', async () => {
    let endpoint = await second('load-unlisted');
    await loadBoth(endpoint);
    expect((await endpoint.listModels()).map(({ id }) => id)).toEqual(['base', 'run-v1']);
    near(await endpoint.promptLogprobs('run-v2', IDS), truth(adapters.v2!));
    await server.close();
    endpoint = await second('load-ignored');
    await loadBoth(endpoint);
    expect((await failure(endpoint.promptLogprobs('run-v2', IDS))).reason).toBe('unknown-model');
  });

  it('may be listed from elsewhere', async () => {
    const endpoint = await start([{ route: 'load', fault: { kind: 'load-wrong-root' } }]);
    await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
    expect((await endpoint.listModels())[1]!.root).toBe(join(folder, 'v1-elsewhere'));
  });

  it('may be applied though its answer was lost', async () => {
    const endpoint = await start([{ route: 'load', nth: 1, fault: { kind: 'reset-after' } }]);
    expect((await failure(endpoint.loadAdapter('run-v1', join(folder, 'v1')))).reason).toBe('connection');
    expect(server.loaded().map(({ name }) => name)).toEqual(['run-v1']);
    await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
  });
});

it('a single answer may come from the base model or the adapter before', async () => {
  const endpoint = await start([
    { route: 'score', nth: 1, fault: { kind: 'answer-as-base' } },
    { route: 'score', nth: 2, fault: { kind: 'answer-as-previous' } },
  ]);
  await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
  await endpoint.loadAdapter('run-v2', join(folder, 'v2'));
  for (const adapter of [null, adapters.v1!, adapters.v2!])
    near(await endpoint.promptLogprobs('run-v2', IDS), promptLogprobs(fakeModel, IDS, adapter));
});

it('a restart loses the adapters and keeps the address; a stopped one refuses', async () => {
  const endpoint = await start();
  await endpoint.loadAdapter('run-v1', join(folder, 'v1'));
  await server.restart();
  expect((await failure(endpoint.complete(call('run-v1')))).reason).toBe('unknown-model');
  expect((await endpoint.listModels()).length).toBe(1);
  await server.stop();
  expect((await failure(endpoint.listModels())).reason).toBe('connection');
});

describe('a script', () => {
  const fault: Fault = { kind: 'hang' };
  const faults = (script: Rule[], seed: number) => {
    const next = playScript(script, seed);
    return Array.from({ length: 2000 }, () => next('load') !== null);
  };

  it('counts each route for itself', () => {
    const next = playScript([{ route: 'load', nth: 2, fault }], 1);
    expect(['load', 'models', 'load', 'load'].map((route) => next(route as 'load') !== null)).toEqual([
      false,
      false,
      true,
      false,
    ]);
  });

  it('draws by its seed, at the rate that it says', () => {
    const script: Rule[] = [{ route: 'load', probability: 0.2, fault }];
    const drawn = faults(script, 1);
    expect(drawn).toEqual(faults(script, 1));
    expect(drawn).not.toEqual(faults(script, 2));
    expect(drawn.filter(Boolean).length / drawn.length).toBeCloseTo(0.2, 1);
  });
});
