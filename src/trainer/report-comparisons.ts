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

/** Mean over evaluations, of samples or seeds, of each question's metric. */
const means = (all: readonly PolicyEvaluation[], metric: QuestionMetric): number[] =>
  all[0]!.perQuestion.map((_, i) => mean(all.map((e) => metricOf(e.perQuestion[i]!, metric))));
const recalls = (all: readonly PolicyEvaluation[]): number[] => means(all, 'recall');

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
 * streams are named by what is compared, so that adding one changes no other. Of several reports, of runs that differ
 * by their seed: a question counts with its mean over the runs, and so does the start's best weight.
 */
export function compare(reports: readonly FinalReport[], data: Data, config: Config): Comparison[] {
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
  const [report] = reports as [FinalReport];
  const before = reports.map((r) => r.before);
  const after = reports.map((r) => r.after);
  const single = reports.map((r) => r.singlePass);
  add('after', 'before', recalls(after), recalls(before));
  add('after', 'single-pass', recalls(after), recalls(single));
  add('before', 'single-pass', recalls(before), recalls(single));
  const trained = config.retrieval.anchor.rewrite;
  const starts = [
    { weight: trained, start: recalls(before) },
    ...report.sweep.map(({ weight }, w) => ({
      weight,
      start: recalls(reports.map((r) => r.sweep[w]!.before)),
    })),
  ];
  if (report.sweep.length > 0) {
    const { weight, start } = best(starts);
    add('after', `before at its best weight (${weight})`, recalls(after), start);
  }
  const figures = report.after.answerAccuracy !== undefined ? ANSWER_FIGURES : [];
  for (const [what, figure] of figures)
    add(`${what} after`, `${what} before`, means(after, figure), means(before, figure));
  if (report.sampled) {
    const [start, mine] = [
      reports.flatMap((r) => r.sampled!.before),
      reports.flatMap((r) => r.sampled!.after),
    ];
    add('after, mean sample', 'before, mean sample', recalls(mine), recalls(start));
    if (report.sweep.length > 0) {
      const fairest = best([
        { weight: trained, start: recalls(start) },
        ...report.sweep.map(({ weight }, w) => ({
          weight,
          start: recalls(reports.flatMap((r) => r.sweep[w]!.sampled)),
        })),
      ]);
      const over = `before, mean sample at its best weight (${fairest.weight})`;
      add('after, mean sample', over, recalls(mine), fairest.start);
    }
    for (const [what, figure] of figures)
      add(
        `${what} after, mean sample`,
        `${what} before, mean sample`,
        means(mine, figure),
        means(start, figure),
      );
  }
  const pools = reports.map((r) => poolRecalls(r.after, r.singlePass, data.validation));
  const over = (side: 0 | 1): number[] =>
    data.validation.map((_, i) => mean(pools.map((pool) => pool[side][i]!)));
  add('pool after', 'single-pass list of the same length', over(0), over(1));
  report.baselines.forEach(({ name }, b) => {
    add('after', name, recalls(after), recalls(reports.map((r) => r.baselines[b]!.evaluation)));
  });
  return out;
}

/** The weight at which the start reads best, the first of equals. */
const best = (starts: { weight: number; start: number[] }[]) =>
  starts.reduce((a, b) => (mean(b.start) > mean(a.start) ? b : a));

const points = (x: number): string => `${x >= 0 ? '+' : ''}${(100 * x).toFixed(1)}`;

/** A line a comparison, in points. */
export const comparisonTable = (comparisons: readonly Comparison[], k: number): string =>
  formatTable(
    [`gain in recall@${k}, or as named; points`, 'over', 'questions', 'mean', '95 % interval'],
    comparisons.map(({ what, over, questions, gain }) => [
      what,
      over,
      String(questions),
      points(gain.mean),
      `[${points(gain.low)}, ${points(gain.high)}]`,
    ]),
  );

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
    comparisonTable(report.comparisons, k),
    ...report.standIns.map((standIn) => `note: ${standIn}`),
  ].join('\n');
}
