/**
 * What a run says at its end: the chosen adapter against the policy that GRPO started from, single-pass
 * retrieval and the baselines without a language model, question by question with paired intervals; seen
 * and unseen gold apart; the start read at every search weight of the sweep, so that it is compared at its
 * best.
 */

import { join } from 'node:path';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { stream } from '../base/random.ts';
import { mean } from '../base/statistics.ts';
import type { Config } from '../config/schema.ts';
import { topHits } from '../env/retrieval/bm25-index.ts';
import type { Query } from '../env/types.ts';
import { baselineRankings } from '../eval/baselines.ts';
import { type Interval, pairedDifference } from '../eval/bootstrap.ts';
import {
  type Answered,
  evaluatePolicy,
  judge,
  type PolicyEvaluation,
  type QuestionOutcome,
  summariseOutcomes,
} from '../eval/evaluate-policy.ts';
import { recallAt } from '../eval/metrics.ts';
import { splitBySeenGold } from '../eval/seen-gold.ts';
import { type EvalFigures, evaluationTable, formatTable } from '../report/tables.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { PolicyVersion, RolloutContext } from '../rollout/roll-out.ts';
import type { Progress } from './checkpoint.ts';
import { createEnvironment, type Environment } from './environment.ts';
import type { Model } from './prepare.ts';
import { type Data, evalSampling, greedySampling, rolloutContext } from './prepare.ts';
import { publishedAdapter } from './publish.ts';
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

/** The metrics of a ranking that no policy made. */
export const rankingFigures = ({ recall, mrr, ndcg }: PolicyEvaluation): EvalFigures => ({
  recall,
  mrr,
  ndcg,
});

/** `gain`: mean difference of recall with its 95 % interval, in points of recall (0 to 1). */
export interface Comparison {
  what: string;
  over: string;
  questions: number;
  gain: Interval;
}

export interface FinalReport {
  chosenStep: number;
  adapter: string;
  singlePass: PolicyEvaluation;
  before: PolicyEvaluation;
  after: PolicyEvaluation;
  /** Mean recall of sampled episodes (temperature of the rollouts); absent when none were asked for. */
  sampled?: { samples: number; before: PolicyEvaluation[]; after: PolicyEvaluation[] };
  /** The start and the result at other search weights of the rewrite; `sampled`: the start's sampled episodes there. */
  sweep: {
    weight: number;
    before: PolicyEvaluation;
    after: PolicyEvaluation;
    sampled: PolicyEvaluation[];
  }[];
  /** `settings`: the constants chosen on the training questions. */
  baselines: { name: string; settings: Record<string, number>; evaluation: PolicyEvaluation }[];
  comparisons: Comparison[];
  /** What stood in for a model that was not given. */
  standIns: readonly string[];
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
  report.comparisons = compare(report, data, config);
  await writeFileAtomic(folder.report, `${JSON.stringify(report)}\n`);
  return { report, table: reportTable(report, data, k) };
}

/** Makes an adapter of the run askable again. */
async function load(name: string, { replicas, folder }: ReportInput): Promise<PolicyVersion> {
  const adapter = publishedAdapter(join(folder.adapters, name));
  await replicas.hold(adapter);
  return { version: adapter.version, model: name };
}

const ANSWER_FIGURES = [
  ['evidence recall', 'evidenceRecall'],
  ['answer accuracy', 'answerAccuracy'],
] as const satisfies [string, keyof Answered][];

const recalls = ({ perQuestion }: PolicyEvaluation): number[] => perQuestion.map((q) => q.recall);

/** Mean over samples of each question's recall. */
const meanRecalls = (all: PolicyEvaluation[]): number[] =>
  all[0]!.perQuestion.map((_, i) => mean(all.map((e) => e.perQuestion[i]!.recall)));

/** Recall of the whole pool, against single-pass lists of the same length, question by question. */
function poolRecalls(
  evaluation: PolicyEvaluation,
  single: PolicyEvaluation,
  queries: readonly Query[],
): [number[], number[]] {
  const at = (list: string[], n: number, gold: string[]): number => (n === 0 ? 0 : recallAt(n, list, gold));
  const pool = evaluation.perQuestion.map((q, i) => at(q.ranked, q.ranked.length, queries[i]!.gold));
  const same = evaluation.perQuestion.map((q, i) =>
    at(single.perQuestion[i]!.ranked, q.ranked.length, queries[i]!.gold),
  );
  return [pool, same];
}

function compare(report: FinalReport, data: Data, config: Config): Comparison[] {
  const { seed } = config.run;
  const draws = config.eval.bootstrap;
  const subsets = {
    all: data.validation.map((_, i) => i),
    'unseen gold': splitBySeenGold(data.train, data.validation).unseen,
  };
  const out: Comparison[] = [];
  const add = (what: string, over: string, after: number[], before: number[]): void => {
    for (const [subset, positions] of Object.entries(subsets)) {
      const pick = (values: number[]): number[] => positions.map((i) => values[i]!);
      const questions = positions.length;
      if (questions < 2 || (subset !== 'all' && questions === after.length)) continue;
      const gain = pairedDifference(
        pick(before),
        pick(after),
        stream(seed, 'bootstrap', what, over, subset),
        draws,
      );
      out.push({ what: subset === 'all' ? what : `${what} (${subset})`, over, questions, gain });
    }
  };
  const { before, after, singlePass: single, sampled, sweep } = report;
  add('after', 'before', recalls(after), recalls(before));
  add('after', 'single-pass', recalls(after), recalls(single));
  add('before', 'single-pass', recalls(before), recalls(single));
  const starts = [{ weight: config.retrieval.anchor.rewrite, before }, ...sweep];
  const best = starts.reduce((a, b) => (b.before.recall > a.before.recall ? b : a));
  if (sweep.length > 0)
    add('after', `before at its best weight (${best.weight})`, recalls(after), recalls(best.before));
  const answered = (e: PolicyEvaluation, figure: keyof Answered): number[] =>
    e.perQuestion.map(({ answer }) => answer?.[figure] ?? 0);
  if (after.answerAccuracy !== undefined)
    for (const [what, figure] of ANSWER_FIGURES)
      add(`${what} after`, `${what} before`, answered(after, figure), answered(before, figure));
  if (sampled) {
    const mine = meanRecalls(sampled.after);
    add('after, mean sample', 'before, mean sample', mine, meanRecalls(sampled.before));
    const read = [{ weight: config.retrieval.anchor.rewrite, sampled: sampled.before }, ...sweep];
    const fairest = read.reduce((a, b) =>
      mean(meanRecalls(b.sampled)) > mean(meanRecalls(a.sampled)) ? b : a,
    );
    if (sweep.length > 0)
      add(
        'after, mean sample',
        `before, mean sample at its best weight (${fairest.weight})`,
        mine,
        meanRecalls(fairest.sampled),
      );
  }
  const [pool, same] = poolRecalls(after, single, data.validation);
  add('pool after', 'single-pass list of the same length', pool, same);
  for (const { name, evaluation } of report.baselines)
    add('after', name, recalls(after), recalls(evaluation));
  return out;
}

const points = (x: number): string => `${x >= 0 ? '+' : ''}${(100 * x).toFixed(1)}`;

function reportTable(report: FinalReport, data: Data, k: number): string {
  const rows = [
    { name: 'single-pass', figures: rankingFigures(report.singlePass) },
    ...report.baselines.map(({ name, evaluation }) => ({ name, figures: rankingFigures(evaluation) })),
    { name: 'before', figures: report.before },
    ...report.sweep.map(({ weight, before }) => ({ name: `before, weight ${weight}`, figures: before })),
    { name: `after (step ${report.chosenStep})`, figures: report.after },
    ...report.sweep.map(({ weight, after }) => ({ name: `after, weight ${weight}`, figures: after })),
  ];
  const depth = [...new Set([k, 14, 30])].map((at) => [
    `recall@${at}`,
    ...[report.singlePass, report.before, report.after].map(({ perQuestion }) =>
      mean(perQuestion.map((q, i) => recallAt(at, q.ranked, data.validation[i]!.gold))).toFixed(3),
    ),
  ]);
  return [
    evaluationTable(k, rows),
    '',
    formatTable(['', 'single-pass', 'before', 'after'], depth),
    '',
    formatTable(
      [`gain in recall@${k}, or as named; points`, 'over', 'questions', 'mean', '95 % interval'],
      report.comparisons.map(({ what, over, questions, gain }) => [
        what,
        over,
        String(questions),
        points(gain.mean),
        `[${points(gain.low)}, ${points(gain.high)}]`,
      ]),
    ),
    ...report.standIns.map((standIn) => `note: ${standIn}`),
  ].join('\n');
}
