import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream, streamSeed } from '../base/random.ts';
import type { Query } from '../env/types.ts';
import { type CompletionCall, RolloutFailure } from '../rollout/endpoint.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import { BASE_MODEL, tableModel } from '../trainer/test-support.ts';
import { createTableEndpoint, ledgerOf, tableContext, tableQuery } from '../trainer/test-support-rollout.ts';
import { type EvaluationOptions, evaluatePolicy, judge } from './evaluate-policy.ts';

const policy = { version: 0, model: BASE_MODEL };
const sampling = { temperature: 0, maxTokens: { planner: 6, rewriter: 6, lawyer: 64 }, maxAttempts: 1 };
const options: EvaluationOptions = { k: 3, sampling, sample: 0 };
const model = tableModel(8, 1);
const questions: Query[] = Array.from({ length: 7 }, (_, i) => ({ ...tableQuery(i + 1, 1), id: `q${i}` }));
type Script = (call: CompletionCall, n: number) => Promise<undefined>;

function contextOf(script?: Script, change: Partial<RolloutContext> = {}) {
  const asked: CompletionCall[] = [];
  const endpoint = createTableEndpoint(model, async (call, n) => {
    asked.push(call);
    return script?.(call, n);
  });
  return { context: tableContext(endpoint, change), asked };
}

describe('judge', () => {
  it('hand-computed', () => {
    const gold = ['b', 'd'];
    const at3 = judge(['a', 'b', 'c', 'd'], gold, 3);
    expect([at3.recall, at3.mrr]).toEqual([0.5, 0.5]);
    expect(at3.ndcg).toBeCloseTo(1 / Math.log2(3) / (1 + 1 / Math.log2(3)), 12);
    expect(judge(['a', 'b', 'c', 'd'], gold, 4).recall).toBe(1);
    expect(judge([], gold, 3)).toEqual({ recall: 0, mrr: 0, ndcg: 0 });
  });
});

describe('evaluatePolicy', () => {
  /** Episodes with the given pools, rounds and ends, in the order of the questions' ids. */
  const scripted = (episodes: Record<string, { pool: string[]; rounds: number; invalid?: boolean }>) =>
    contextOf(undefined, {
      runEpisode: async ({ id }) => {
        const { pool, rounds, invalid } = episodes[id]!;
        const round = { agent: 'planner', queries: [], dropped: [], newIds: [], poolSize: 0 };
        return {
          calls: [],
          rounds: new Array(rounds).fill(round),
          pool,
          termination: { kind: invalid ? 'invalid' : 'planner', reason: '' },
        };
      },
    }).context;

  it('means over questions, and each question in its place: hand-computed', async () => {
    const context = scripted({
      q0: { pool: ['x', 'a1', 'y'], rounds: 2 },
      q1: { pool: ['x', 'y', 'z', 'a1'], rounds: 4 },
      q2: { pool: [], rounds: 0, invalid: true },
      q3: { pool: ['a1'], rounds: 1 },
    });
    const out = await evaluatePolicy(context, questions.slice(0, 4), policy, options);
    expect(out).toMatchObject({
      recall: 0.5,
      mrr: (0.5 + 1) / 4,
      invalidRate: 0.25,
      meanRounds: 7 / 4,
      meanPool: 8 / 4,
      failed: 0,
    });
    expect(out.ndcg).toBeCloseTo((1 / Math.log2(3) + 1) / 4, 12);
    expect(
      out.perQuestion.map(({ queryId, recall, rounds, invalid }) => [queryId, recall, rounds, invalid]),
    ).toEqual([
      ['q0', 1, 2, false],
      ['q1', 0, 4, false],
      ['q2', 0, 0, true],
      ['q3', 1, 1, false],
    ]);
    expect(out.perQuestion[1]!.ranked).toEqual(['x', 'y', 'z', 'a1']);
  });

  it('asks one greedy episode a question, whatever the training does', async () => {
    const { context, asked } = contextOf();
    await evaluatePolicy(context, questions, policy, options);
    expect(asked).toHaveLength(questions.length);
    expect(asked.every(({ temperature, model: name }) => temperature === 0 && name === BASE_MODEL)).toBe(
      true,
    );
  });

  it('is the same each time, whatever the timing; sampled ones differ by `sample` alone', async () => {
    const evaluate = (sample: number, delays: number, temperature: number) => {
      const random = stream(delays, 'delays');
      const { context } = contextOf(async () => {
        await sleep(random.int(4));
        return undefined;
      });
      const settings = { ...options, sample, sampling: { ...sampling, temperature } };
      return evaluatePolicy(context, questions, policy, settings);
    };
    expect(await evaluate(0, 1, 0)).toEqual(await evaluate(0, 2, 0));
    const sampled = await evaluate(1, 1, 1);
    expect(await evaluate(1, 2, 1)).toEqual(sampled);
    expect(await evaluate(2, 1, 1)).not.toEqual(sampled);
  });

  it('draws from streams of its own: never those of training', async () => {
    const { context, asked } = contextOf();
    await evaluatePolicy(context, questions, policy, options);
    expect(asked.map(({ seed }) => seed)).toEqual(
      questions.map(({ id }) => streamSeed(context.seed, 'evaluate', 0, id, 0, 0, 0)),
    );
    const training = questions.map(({ id }) => streamSeed(context.seed, 'train', 0, id, 0, 0, 0));
    expect(asked.some(({ seed }) => training.includes(seed))).toBe(false);
  });

  it('does not hear of the reward', async () => {
    const plain = await evaluatePolicy(contextOf().context, questions, policy, options);
    const bribed = contextOf(undefined, { score: () => ledgerOf(1e9) });
    expect(await evaluatePolicy(bribed.context, questions, policy, options)).toEqual(plain);
  });

  it('a failed rollout keeps its place, is counted, and found nothing; a retry may save it', async () => {
    const fails: Script = async (_call, n) => {
      if (n === 2) throw new RolloutFailure('deadline', 'no answer');
      return undefined;
    };
    const whole = await evaluatePolicy(contextOf().context, questions, policy, options);
    const out = await evaluatePolicy(contextOf(fails).context, questions, policy, options);
    expect(out.failed).toBe(1);
    expect(out.perQuestion.map(({ queryId }) => queryId)).toEqual(questions.map(({ id }) => id));
    expect(out.perQuestion[2]).toMatchObject({ ranked: [], recall: 0, invalid: false });
    expect(out.perQuestion.filter((_, i) => i !== 2)).toEqual(whole.perQuestion.filter((_, i) => i !== 2));
    const patient = { ...options, sampling: { ...sampling, maxAttempts: 2 } };
    expect(await evaluatePolicy(contextOf(fails).context, questions, policy, patient)).toEqual(whole);
  });

  it('when every rollout failed there are no figures, but an error with the reason', async () => {
    const { context } = contextOf(async () => {
      throw new RolloutFailure('connection', 'ECONNREFUSED');
    });
    const failure = await evaluatePolicy(context, questions, policy, options).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(/every rollout.*connection: ECONNREFUSED/);
  });

  it('no questions are an error, not NaN', async () => {
    await expect(evaluatePolicy(contextOf().context, [], policy, options)).rejects.toThrow(/no values/);
  });
});
