/** Held-out evaluation of one policy version: its own episodes, read as rankings. */
import { UserError } from '../base/errors.ts';
import { mean } from '../base/statistics.ts';
import type { Query } from '../env/types.ts';
import { type PolicyVersion, type RolloutContext, rollOut, type Sampling } from '../rollout/roll-out.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { mrrAt, ndcgAt, type QuestionMetric, recallAt } from './metrics.ts';

/** One question's episode as evaluated; `ranked` is the pool in its final order. */
export interface QuestionOutcome {
  queryId: string;
  ranked: string[];
  rounds: number;
  invalid: boolean;
  recall: number;
  mrr: number;
  ndcg: number;
  /** Where the episode ends with an answer: how right it is, and the share of the gold found at all; [0, 1]. */
  answer?: Answered;
}

export interface Answered {
  answerAccuracy: number;
  evidenceRecall: number;
}

/** A metric of one question, [0, 1]. A failed rollout has no answer, which counts as a wrong one. */
export function metricOf(outcome: QuestionOutcome, metric: QuestionMetric): number {
  if (metric === 'answerAccuracy' || metric === 'evidenceRecall') return outcome.answer?.[metric] ?? 0;
  return outcome[metric];
}

/** Means over questions; `perQuestion` in the order of the questions, for paired statistics. */
export interface PolicyEvaluation extends Partial<Answered> {
  recall: number;
  mrr: number;
  ndcg: number;
  invalidRate: number;
  meanRounds: number;
  meanPool: number;
  /** Questions whose rollout failed: they count as found nothing. */
  failed: number;
  perQuestion: QuestionOutcome[];
}

export interface EvaluationOptions {
  k: number;
  sampling: Sampling;
  /**
   * Names the sample: streams of repeated sampled evaluations differ by it. They are the same at every step, so
   * that two policies are compared on the same draws.
   */
  sample: number;
}

/** The metrics of a ranking at `k`. */
export function judge(
  ranked: readonly string[],
  gold: readonly string[],
  k: number,
): Pick<QuestionOutcome, 'recall' | 'mrr' | 'ndcg'> {
  return { recall: recallAt(k, ranked, gold), mrr: mrrAt(k, ranked, gold), ndcg: ndcgAt(k, ranked, gold) };
}

/** Means of outcomes. Throws for none. */
export function summariseOutcomes(perQuestion: QuestionOutcome[], failed: number): PolicyEvaluation {
  return {
    recall: mean(perQuestion.map((q) => q.recall)),
    mrr: mean(perQuestion.map((q) => q.mrr)),
    ndcg: mean(perQuestion.map((q) => q.ndcg)),
    invalidRate: mean(perQuestion.map((q) => (q.invalid ? 1 : 0))),
    meanRounds: mean(perQuestion.map((q) => q.rounds)),
    meanPool: mean(perQuestion.map((q) => q.ranked.length)),
    ...meanAnswered(perQuestion),
    failed,
    perQuestion,
  };
}

function meanAnswered(perQuestion: QuestionOutcome[]): Partial<Answered> {
  if (!perQuestion.some(({ answer }) => answer)) return {};
  const of = (metric: QuestionMetric): number => mean(perQuestion.map((q) => metricOf(q, metric)));
  return { answerAccuracy: of('answerAccuracy'), evidenceRecall: of('evidenceRecall') };
}

function outcomeOf(
  query: Query,
  { rounds, pool, termination, ledger }: Trajectory,
  k: number,
): QuestionOutcome {
  const accuracy = ledger.terms.find(({ name }) => name === 'answerAccuracy')?.raw;
  const evidenceRecall = pool.length === 0 ? 0 : recallAt(pool.length, pool, query.gold);
  return {
    queryId: query.id,
    ranked: pool,
    rounds: rounds.length,
    invalid: termination.kind === 'invalid',
    ...judge(pool, query.gold, k),
    ...(accuracy === undefined ? {} : { answer: { answerAccuracy: accuracy, evidenceRecall } }),
  };
}

/**
 * One episode a question; greedy when `sampling.temperature` is 0.
 *
 * @throws UserError when every rollout failed: that says nothing of the policy, only that the endpoint or a
 *   tool is down.
 */
export async function evaluatePolicy(
  context: RolloutContext,
  queries: readonly Query[],
  policy: PolicyVersion,
  { k, sampling, sample }: EvaluationOptions,
): Promise<PolicyEvaluation> {
  let failed = 0;
  let reason = '';
  const perQuestion = await Promise.all(
    queries.map(async (query) => {
      const id = { purpose: 'evaluate', step: 0, member: sample };
      const result = await rollOut(context, query, policy, sampling, id);
      if (result.kind === 'ok') return outcomeOf(query, result.trajectory, k);
      failed++;
      reason = result.reason;
      return { queryId: query.id, ranked: [], rounds: 0, invalid: false, recall: 0, mrr: 0, ndcg: 0 };
    }),
  );
  if (failed > 0 && failed === queries.length)
    throw new UserError(
      `every rollout of the evaluation failed, the last one with ${reason}`,
      policy.model,
      'check the policy endpoint and the retriever',
    );
  return summariseOutcomes(perQuestion, failed);
}
