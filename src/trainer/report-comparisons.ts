/** What a run's final report compares, with paired intervals, and the table that a person reads. */
import { stream } from '../base/random.ts';
import { mean } from '../base/statistics.ts';
import type { Config } from '../config/schema.ts';
import type { Query } from '../env/types.ts';
import { type Interval, pairedDifference } from '../eval/bootstrap.ts';
import { type Answered, metricOf, type PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { type QuestionMetric, recallAt } from '../eval/metrics.ts';
import { splitBySeenGold } from '../eval/seen-gold.ts';
import { type EvalFigures, evaluationTable, formatTable } from '../report/tables.ts';
import type { Data } from './prepare.ts';

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

const ANSWER_FIGURES = [
  ['evidence recall', 'evidenceRecall'],
  ['answer accuracy', 'answerAccuracy'],
] as const satisfies [string, keyof Answered][];

const recalls = ({ perQuestion }: PolicyEvaluation): number[] => perQuestion.map((q) => q.recall);

/** Mean over samples of each question's metric. */
const sampleMeans = (all: PolicyEvaluation[], metric: QuestionMetric): number[] =>
  all[0]!.perQuestion.map((_, i) => mean(all.map((e) => metricOf(e.perQuestion[i]!, metric))));
const meanRecalls = (all: PolicyEvaluation[]): number[] => sampleMeans(all, 'recall');

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

/**
 * The paired differences that a report gives, over all questions and over those whose gold never occurs in training;
 * streams are named by what is compared, so that adding one changes no other.
 */
export function compare(report: FinalReport, data: Data, config: Config): Comparison[] {
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
  const isAnswered = after.answerAccuracy !== undefined;
  const one = (e: PolicyEvaluation, figure: keyof Answered): number[] => sampleMeans([e], figure);
  for (const [what, figure] of isAnswered ? ANSWER_FIGURES : [])
    add(`${what} after`, `${what} before`, one(after, figure), one(before, figure));
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
    for (const [what, figure] of isAnswered ? ANSWER_FIGURES : [])
      add(
        `${what} after, mean sample`,
        `${what} before, mean sample`,
        sampleMeans(sampled.after, figure),
        sampleMeans(sampled.before, figure),
      );
  }
  const [pool, same] = poolRecalls(after, single, data.validation);
  add('pool after', 'single-pass list of the same length', pool, same);
  for (const { name, evaluation } of report.baselines)
    add('after', name, recalls(after), recalls(evaluation));
  return out;
}

const points = (x: number): string => `${x >= 0 ? '+' : ''}${(100 * x).toFixed(1)}`;

/** What a person reads of it. */
export function reportTable(report: FinalReport, data: Data, k: number): string {
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
