/**
 * What a run says at its end: the chosen adapter against the policy that GRPO started from, single-pass
 * retrieval and the baselines without a language model, question by question with paired intervals; seen
 * and unseen gold apart; the start read at every search weight of the sweep, so that it is compared at its
 * best.
 */

import { join } from 'node:path';
import { writeFileAtomic } from '../base/atomic-write.ts';
import type { Config } from '../config/schema.ts';
import { topHits } from '../env/retrieval/bm25-index.ts';
import type { Query } from '../env/types.ts';
import { baselineRankings } from '../eval/baselines.ts';
import {
  evaluatePolicy,
  judge,
  type PolicyEvaluation,
  type QuestionOutcome,
  summariseOutcomes,
} from '../eval/evaluate-policy.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { PolicyVersion, RolloutContext } from '../rollout/roll-out.ts';
import type { Progress } from './checkpoint.ts';
import { createEnvironment, type Environment } from './environment.ts';
import type { Model } from './prepare.ts';
import { type Data, evalSampling, greedySampling, rolloutContext } from './prepare.ts';
import { publishedAdapter } from './publish.ts';
import { compare, type FinalReport, reportTable } from './report-comparisons.ts';
import { type RunFolder, readEvaluation } from './run-folder.ts';

/** Rankings longer than any pool, so that equal pool sizes can be compared. */
const SINGLE_PASS_DEPTH = 100;

/** The question searched as it is, without reranking: `ranked` holds the first 100. */
export function singlePass(
  { retriever }: Pick<Environment, 'retriever'>,
  queries: readonly Query[],
  config: Config,
): PolicyEvaluation {
  const outcomes = queries.map((query) => {
    const scores = retriever.scores({ original: query.query, rewrite: query.query });
    const ranked = topHits(retriever.index, scores, SINGLE_PASS_DEPTH).map(({ id }) => id);
    return rankingOutcome(query, ranked, config.eval.k);
  });
  return summariseOutcomes(outcomes, 0);
}

const rankingOutcome = (query: Query, ranked: string[], k: number): QuestionOutcome => ({
  queryId: query.id,
  ranked,
  rounds: 1,
  invalid: false,
  ...judge(ranked, query.gold, k),
});

/** The baselines that need no language model, on the held-out questions. */
export function namedBaselines(
  { retriever }: Pick<Environment, 'retriever'>,
  data: Data,
  config: Config,
): FinalReport['baselines'] {
  // They are made of the gold of training questions.
  if (!data.train.some(({ gold }) => gold.length > 0)) return [];
  return baselineRankings(retriever, data).map(({ name, rankings, settings }) => ({
    name,
    settings,
    evaluation: summariseOutcomes(
      data.validation.map((query, i) => rankingOutcome(query, rankings[i]!, config.eval.k)),
      0,
    ),
  }));
}

export interface ReportInput {
  config: Config;
  data: Data;
  model: Model;
  environment: Environment;
  context: RolloutContext;
  replicas: Pick<Replicas, 'hold'>;
  folder: RunFolder;
  end: Progress;
  baseline: PolicyEvaluation;
  signal: AbortSignal;
}

/**
 * Evaluates the chosen adapter and writes `report.json`; `table` is what a person reads. Throws `signal.reason`
 * before the next evaluation when the signal fires; nothing is written then.
 */
export async function reportRun(input: ReportInput): Promise<{ report: FinalReport; table: string }> {
  const { config, data, folder, end, baseline, context } = input;
  const { k } = config.eval;
  const before = await readEvaluation(folder, 0);
  const chosen =
    config.eval.choose === 'best' && end.best ? end.best : { step: end.step, adapter: end.policy.model };
  const evaluate = (policy: PolicyVersion, ctx = context, sampling = greedySampling(config), sample = 0) => {
    input.signal.throwIfAborted();
    return evaluatePolicy(ctx, data.validation, policy, { k, sampling, sample });
  };
  const start = await load(end.startAdapter, input);
  const result = await load(chosen.adapter, input);
  const stored = await readEvaluation(folder, chosen.step);
  const after = stored.perQuestion.length === data.validation.length ? stored : await evaluate(result);

  const many = async (policy: PolicyVersion, ctx = context): Promise<PolicyEvaluation[]> => {
    const all: PolicyEvaluation[] = [];
    for (let s = 1; s <= config.eval.samples; s++)
      all.push(await evaluate(policy, ctx, evalSampling(config), s));
    return all;
  };
  const sweep: FinalReport['sweep'] = [];
  for (const weight of config.eval.anchorSweep) {
    const weighted = createEnvironment(config, data, { rewriteWeight: weight, like: input.environment });
    const ctx = rolloutContext(config, input.model, weighted, context.endpoint);
    sweep.push({
      weight,
      before: await evaluate(start, ctx),
      after: await evaluate(result, ctx),
      sampled: await many(start, ctx),
    });
  }
  const baselines = config.eval.baselines ? namedBaselines(input.environment, data, config) : [];
  const report: FinalReport = {
    chosenStep: chosen.step,
    adapter: join(folder.adapters, chosen.adapter),
    singlePass: baseline,
    before,
    after,
    ...(config.eval.samples > 0
      ? { sampled: { samples: config.eval.samples, before: await many(start), after: await many(result) } }
      : {}),
    sweep,
    baselines,
    comparisons: [],
    standIns: input.environment.standIns,
  };
  report.comparisons = compare([report], data, config);
  await writeFileAtomic(folder.report, `${JSON.stringify(report)}\n`);
  return { report, table: reportTable(report, data, k) };
}

/** Makes an adapter of the run askable again. */
async function load(name: string, { replicas, folder }: ReportInput): Promise<PolicyVersion> {
  const adapter = publishedAdapter(join(folder.adapters, name));
  await replicas.hold(adapter);
  return { version: adapter.version, model: name };
}
