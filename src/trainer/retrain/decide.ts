/** Whether the challenger takes the champion's place. Pure. */
import type { Random } from '../../base/random.ts';
import { mean } from '../../base/statistics.ts';
import type { Config } from '../../config/schema.ts';
import { pairedDifference } from '../../eval/bootstrap.ts';
import { metricOf, type PolicyEvaluation, type QuestionOutcome } from '../../eval/evaluate-policy.ts';
import { isRanking } from '../../eval/metrics.ts';
import type { Figures } from './records.ts';

export type PromoteRule = NonNullable<Config['retrain']>['promote'];

export interface Decision {
  promote: boolean;
  /** One sentence with the numbers that decided. */
  why: string;
  figures: Figures;
}

/**
 * Compares two evaluations of the same questions at cut-off `k` by the rule. A gain of exactly `minGain` is not
 * above it.
 *
 * @throws Error when they are not of the same questions in the same order.
 */
export function decide(
  champion: Pick<PolicyEvaluation, 'perQuestion'>,
  challenger: Pick<PolicyEvaluation, 'perQuestion'>,
  { metric, rule, minGain, confidence, bootstrap }: PromoteRule,
  k: number,
  random: Random,
): Decision {
  const ids = ({ perQuestion }: Pick<PolicyEvaluation, 'perQuestion'>) => perQuestion.map((q) => q.queryId);
  if (JSON.stringify(ids(champion)) !== JSON.stringify(ids(challenger)))
    throw new Error('champion and challenger were evaluated on different questions');
  const values = ({ perQuestion }: { perQuestion: QuestionOutcome[] }) =>
    perQuestion.map((q) => metricOf(q, metric));
  const [before, after] = [values(champion), values(challenger)];
  const gain = pairedDifference(before, after, random, bootstrap, confidence);
  const promote = (rule === 'interval-above' ? gain.low : gain.mean) > minGain;
  const what = rule === 'interval-above' ? 'the interval' : 'the mean';
  const figures: Figures = {
    metric,
    k,
    questions: before.length,
    champion: mean(before),
    challenger: mean(after),
    gain,
    confidence,
  };
  const why = `${figureName(figures)} ${gainText(figures)}: ${what} is ${promote ? '' : 'not '}above ${minGain}`;
  return { promote, why, figures };
}

/** `recall@10`, `answerAccuracy`. */
export const figureName = ({ metric, k }: Pick<Figures, 'metric' | 'k'>): string =>
  isRanking(metric) ? `${metric}@${k}` : metric;

/** `0.412 → 0.455, gain +0.043 [+0.012, +0.074] at 95 %`. */
export function gainText({ champion, challenger, gain, confidence }: Figures): string {
  const signed = (x: number) => `${x < 0 ? '' : '+'}${x.toFixed(3)}`;
  const percent = Number((100 * confidence).toFixed(2));
  return `${champion.toFixed(3)} → ${challenger.toFixed(3)}, gain ${signed(gain.mean)} [${signed(gain.low)}, ${signed(gain.high)}] at ${percent} %`;
}
