import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream, streamSeed } from '../base/random.ts';
import type { Query } from '../env/types.ts';
import { type CompletionCall, type Endpoint, RolloutFailure } from './endpoint.ts';
import { type RolloutContext, rollOut, rollOutGroup, type Sampling } from './roll-out.ts';
import type { RolloutResult, Trajectory } from './trajectory.ts';

type Answer = Awaited<ReturnType<Endpoint['complete']>>;
const policy = { version: 3, model: 'r-v3' };
const sampling: Sampling = {
  temperature: 0.8,
  topP: 0.9,
  topK: 7,
  maxTokens: { planner: 4, rewriter: 9, lawyer: 64 },
  maxAttempts: 2,
};
const query: Query = { id: 'q1', query: 'what', gold: ['a1'] };

/** Output and log-probabilities follow from the request alone. */
function answerTo(call: CompletionCall): Answer {
  const random = stream(call.seed, call.model, ...call.promptIds);
  const outputIds = Array.from({ length: 1 + random.int(call.maxTokens) }, () => random.int(50));
  return {
    model: call.model,
    promptIds: call.promptIds,
    outputIds,
    logprobs: outputIds.map(() => -3 * random.next()),
    temperature: call.temperature,
    finishReason: 'stop',
    text: outputIds.join(' '),
  };
}

/** Episodes of one to four calls, as the outputs will have it; their tokens are the pool. */
function contextOf(
  complete: (call: CompletionCall, n: number) => Promise<Answer>,
  change: Partial<RolloutContext> = {},
): { context: RolloutContext; asked: CompletionCall[] } {
  const asked: CompletionCall[] = [];
  const endpoint = {
    complete: (call: CompletionCall) => complete(call, asked.push(call) - 1),
  } as Partial<Endpoint> as Endpoint;
  let clock = 0;
  const context: RolloutContext = {
    runId: 'run',
    seed: 11,
    endpoint,
    renderPrompt: (messages) =>
      [...messages.map(({ content }) => content).join('|')].map((c) => c.charCodeAt(0)),
    stopTokenIds: [49],
    async runEpisode(asking, ask) {
      const calls: Trajectory['calls'] = [];
      for (let callIndex = 0; callIndex < 4; callIndex++) {
        const role = callIndex % 2 === 0 ? 'planner' : 'repair';
        const content = `${asking.query} ${calls.at(-1)?.text ?? ''}`;
        const output = await ask({ role, round: 0, callIndex, messages: [{ role: 'user', content }] });
        calls.push({ role, round: 0, action: null, ...output });
        if (output.outputIds[0]! < 10) break;
      }
      const pool = calls.flatMap(({ outputIds }) => outputIds.map((id) => `a${id}`));
      return { calls, rounds: [], pool, termination: { kind: 'planner', reason: '' } };
    },
    score: ({ pool }) => {
      const value = pool.length;
      return { terms: [{ name: 'recall', raw: value, weight: 1, value }], total: value };
    },
    now: () => clock++,
    ...change,
  };
  return { context, asked };
}

const untimed = (results: RolloutResult[]) =>
  results.map((r) => (r.kind === 'ok' ? { ...r.trajectory, timings: {} } : r));
const only = (r: RolloutResult) => {
  if (r.kind !== 'ok') throw new Error(r.reason);
  return r.trajectory;
};
const id = { purpose: 'train', step: 5, member: 2 };

describe('rollOut', () => {
  it('keeps the ids and log-probabilities as they came, and says who answered', async () => {
    const { context, asked } = contextOf(async (call) => answerTo(call));
    const trajectory = only(await rollOut(context, query, policy, sampling, id));
    expect(trajectory).toMatchObject({
      runId: 'run',
      step: 5,
      queryId: 'q1',
      member: 2,
      policyVersion: 3,
      adapter: 'r-v3',
      advantage: null,
      dropReason: null,
    });
    expect(trajectory.calls.length).toBe(asked.length);
    for (const [i, call] of trajectory.calls.entries()) {
      const { promptIds, outputIds, logprobs } = answerTo(asked[i]!);
      expect(call).toMatchObject({ promptIds, outputIds, logprobs, temperature: 0.8 });
      expect(Object.keys(call)).not.toContain('model');
    }
    expect(trajectory.ledger.total).toBe(trajectory.pool.length);
  });

  it('names everything on every request', async () => {
    const { context, asked } = contextOf(async (call) => ({
      ...answerTo(call),
      outputIds: [20],
      logprobs: [-1],
    }));
    await rollOut(context, query, policy, sampling, id);
    expect(asked.map(({ maxTokens }) => maxTokens)).toEqual([4, 9, 4, 9]);
    for (const [callIndex, call] of asked.entries())
      expect(call).toMatchObject({
        model: 'r-v3',
        temperature: 0.8,
        topP: 0.9,
        topK: 7,
        stopTokenIds: [49],
        cacheSalt: 'v3',
        seed: streamSeed(11, 'train', 5, 'q1', 2, 0, callIndex),
      });
    await rollOut(context, query, { ...policy, salt: 'v3-w' }, sampling, id);
    expect(asked.at(-1)!.cacheSalt).toBe('v3-w');
  });

  it('tries a failed member anew from another stream, and gives the trajectory of that attempt alone', async () => {
    const { context, asked } = contextOf(async (call, n) => {
      if (n === 1) throw new RolloutFailure('connection', 'reset');
      return { ...answerTo(call), outputIds: n === 0 ? [20] : [1], logprobs: [-1] };
    });
    const trajectory = only(await rollOut(context, query, policy, sampling, id));
    expect(asked.map(({ seed }) => seed)).toEqual([
      streamSeed(11, 'train', 5, 'q1', 2, 0, 0),
      streamSeed(11, 'train', 5, 'q1', 2, 0, 1),
      streamSeed(11, 'train', 5, 'q1', 2, 1, 0),
    ]);
    expect(trajectory.calls.map(({ outputIds }) => outputIds)).toEqual([[1]]);
  });

  it('fails, and is not asked, when a call could become longer than the learner takes', async () => {
    const { context, asked } = contextOf(async (call) => answerTo(call));
    // The planner is asked on "what " and may say 4 tokens.
    const rollOutOf = (maxCallTokens: number) =>
      rollOut(context, query, policy, { ...sampling, maxCallTokens }, id);
    expect(await rollOutOf(8)).toMatchObject({
      kind: 'failed',
      reason: expect.stringMatching(/^too-long: a prompt of 5 tokens .*up to 4 .*maxTreeTokens \(8\)/),
    });
    expect(asked).toEqual([]);
    await rollOutOf(9);
    expect(asked.length).toBeGreaterThan(0);
  });

  it('ends as failed, with the last reason and no trajectory, after maxAttempts', async () => {
    const { context, asked } = contextOf(async (_call, n) => {
      throw new RolloutFailure(n === 2 ? 'deadline' : 'overloaded', `attempt ${n}`);
    });
    const result = await rollOut(context, query, policy, { ...sampling, maxAttempts: 3 }, id);
    expect(asked).toHaveLength(3);
    expect(result).toEqual({ kind: 'failed', queryId: 'q1', member: 2, reason: 'deadline: attempt 2' });
  });

  it('an answer of another model is a failure, never a row', async () => {
    const { context, asked } = contextOf(async (call) => ({ ...answerTo(call), model: 'r-v2' }));
    const result = await rollOut(context, query, policy, sampling, id);
    expect(asked).toHaveLength(sampling.maxAttempts);
    expect(result).toMatchObject({
      kind: 'failed',
      reason: expect.stringMatching(/wrong-model.*r-v3.*r-v2/),
    });
  });

  it('a retriever that fails is a failed trajectory, not a score of 0 and not the end of the run', async () => {
    const scored: unknown[] = [];
    const { context } = contextOf(async (call) => answerTo(call), {
      runEpisode: async (_query, ask) => {
        await ask({ role: 'planner', round: 0, callIndex: 0, messages: [] });
        throw new TypeError('fetch failed');
      },
      score: (episode) => {
        scored.push(episode);
        return { terms: [], total: 0 };
      },
    });
    const result = await rollOut(context, query, policy, sampling, id);
    expect(result).toEqual({ kind: 'failed', queryId: 'q1', member: 2, reason: 'environment: fetch failed' });
    expect(scored).toEqual([]);
  });

  it('a retriever that fails once is tried again', async () => {
    const { context } = contextOf(async (call) => answerTo(call));
    let runs = 0;
    const flaky: RolloutContext = {
      ...context,
      runEpisode: async (asking, ask) => {
        if (runs++ === 0) throw new Error('502');
        return context.runEpisode(asking, ask);
      },
    };
    expect((await rollOut(flaky, query, policy, sampling, id)).kind).toBe('ok');
  });

  it("a user's mistake and a fault in the reward end the run: no attempt would mend them", async () => {
    const mistake = contextOf(async (call) => answerTo(call), {
      renderPrompt: () => {
        throw new UserError('the chat template is broken');
      },
    });
    await expect(rollOut(mistake.context, query, policy, sampling, id)).rejects.toThrow(UserError);
    const fault = contextOf(async (call) => answerTo(call), {
      score: () => {
        throw new Error('the reward is NaN');
      },
    });
    await expect(rollOut(fault.context, query, policy, sampling, id)).rejects.toThrow('the reward is NaN');
    expect(fault.asked.length).toBeGreaterThan(0);
  });
});

describe('rollOutGroup', () => {
  it('gives the same trajectories whatever the timing', async () => {
    const group = async (delays: number | null) => {
      const random = stream(delays ?? 0, 'delays');
      const { context } = contextOf(async (call, n) => {
        if (delays !== null) await sleep(random.int(4));
        if (n % 5 === 4 && delays === null) await sleep(0);
        return answerTo(call);
      });
      return untimed(await rollOutGroup(context, query, policy, sampling, 5, 8));
    };
    const still = await group(null);
    for (const seed of [1, 2, 3]) expect(await group(seed)).toEqual(still);
  });

  it('also when members fail: which ones depends on the request, not on the order of the answers', async () => {
    const group = async (delays: number) => {
      const random = stream(delays, 'delays');
      const { context } = contextOf(async (call) => {
        await sleep(random.int(4));
        if (call.seed % 3 === 0) throw new RolloutFailure('connection', 'lost');
        return answerTo(call);
      });
      return untimed(await rollOutGroup(context, query, policy, sampling, 5, 8));
    };
    const first = await group(1);
    expect(first.some((r) => 'reason' in r)).toBe(true);
    expect(first.some((r) => 'calls' in r)).toBe(true);
    expect(await group(2)).toEqual(first);
  });

  it('samples every member from its own stream, and the same one each time', async () => {
    const seedsOf = async (step: number, queryId: string) => {
      const { context, asked } = contextOf(async (call) => ({
        ...answerTo(call),
        outputIds: [1],
        logprobs: [-1],
      }));
      const results = await rollOutGroup(context, { ...query, id: queryId }, policy, sampling, step, 8);
      expect(results.map((r) => only(r).member)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      return asked.map(({ seed }) => seed);
    };
    const seeds = await seedsOf(5, 'q1');
    expect(new Set(seeds).size).toBe(8);
    expect(await seedsOf(5, 'q1')).toEqual(seeds);
    const others = [...(await seedsOf(6, 'q1')), ...(await seedsOf(5, 'q2'))];
    expect(new Set([...seeds, ...others]).size).toBe(24);
  });

  it('one result a member, in member order, failed ones in their place', async () => {
    const broken = streamSeed(11, 'train', 5, 'q1', 3, 0, 0);
    const { context } = contextOf(async (call) => {
      if (call.seed === broken) throw new RolloutFailure('http', 'refused');
      return answerTo(call);
    });
    const results = await rollOutGroup(context, query, policy, { ...sampling, maxAttempts: 1 }, 5, 6);
    expect(results.map((r) => (r.kind === 'ok' ? r.trajectory.member : `failed ${r.member}`))).toEqual([
      0,
      1,
      2,
      'failed 3',
      4,
      5,
    ]);
  });

  it('numbers the members of a second group of one question on from the first', async () => {
    const { context } = contextOf(async (call) => answerTo(call));
    const results = await rollOutGroup(context, query, policy, sampling, 5, 3, 3);
    expect(results.map((r) => only(r).member)).toEqual([3, 4, 5]);
  });
});
