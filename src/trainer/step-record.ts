/** What a step and an evaluation leave in `metrics.jsonl`, and the note behind the progress line. */
import { mean, std } from '../base/statistics.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { type MetricValues, TERM_SERIES } from '../report/metrics.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import type { StepOutcome } from './loop.ts';

export const evalMetrics = ({
  recall,
  mrr,
  ndcg,
  invalidRate,
  meanRounds,
  meanPool,
  answerAccuracy,
  evidenceRecall,
}: PolicyEvaluation): MetricValues => ({
  'eval/recall': recall,
  'eval/mrr': mrr,
  'eval/ndcg': ndcg,
  'eval/invalidRate': invalidRate,
  'eval/meanRounds': meanRounds,
  'eval/meanPool': meanPool,
  'eval/answerAccuracy': answerAccuracy,
  'eval/evidenceRecall': evidenceRecall,
});

/** Mean raw value of every term that has a series, over the trajectories. */
function termMeans(all: readonly Trajectory[]): MetricValues {
  const raws = new Map<string, number[]>();
  for (const { name, raw } of all.flatMap(({ ledger }) => ledger.terms))
    raws.set(name, [...(raws.get(name) ?? []), raw]);
  return Object.fromEntries(
    TERM_SERIES.flatMap((series) => {
      const values = raws.get(series.slice('reward/'.length));
      return values ? [[series, mean(values)]] : [];
    }),
  );
}

const meanOr0 = (values: number[]): number => (values.length === 0 ? 0 : mean(values));

/** The series of a step. `reward/std`: mean over the groups of their rewards' deviation. */
export function stepMetrics({
  sampled,
  dropped,
  staleness,
  update,
  learningRate,
  seconds,
}: StepOutcome): MetricValues {
  const all = sampled.groups.flat();
  const spreads = sampled.groups
    .filter((group) => group.length > 1)
    .map((group) => std(group.map(({ ledger }) => ledger.total)));
  return {
    'reward/mean': meanOr0(all.map(({ ledger }) => ledger.total)),
    ...termMeans(all),
    'reward/std': meanOr0(spreads),
    'rollout/invalidRate': meanOr0(all.map((t) => (t.termination.kind === 'invalid' ? 1 : 0))),
    'rollout/meanRounds': meanOr0(all.map((t) => t.rounds.length)),
    'rollout/meanPool': meanOr0(all.map((t) => t.pool.length)),
    'rollout/failed': sampled.failures.length,
    'groups/dropped': Object.values(dropped).reduce((a, b) => a + b, 0),
    'groups/zeroVariance': dropped['no variance'] ?? 0,
    'rollout/stale': staleness?.dropped,
    'policy/staleness': staleness?.mean,
    'policy/stalenessMax': staleness?.max,
    'policy/entropy': update?.entropy,
    'policy/kl': update?.kl,
    'policy/clipFraction': update?.clipFraction,
    'policy/mismatch': update?.mismatch.mean,
    'policy/mismatchMax': update?.mismatch.max,
    'policy/mismatchK1': update?.mismatch.k1,
    'policy/mismatchK3': update?.mismatch.k3,
    'policy/mismatchChi2': update?.mismatch.chiSquare,
    'policy/masked': update?.maskedFraction,
    'learn/gradNorm': update?.gradNorm,
    'learn/loss': update?.loss,
    'learn/rate': learningRate,
    'learn/skipped': update?.skipped,
    'tokens/sampled': all.reduce((n, t) => n + t.calls.reduce((m, call) => m + call.outputIds.length, 0), 0),
    'tokens/trained': update?.tokensAfter,
    'time/rollout': seconds.sample * 1000,
    'time/learn': seconds.learn * 1000,
    'time/publish': seconds.publish * 1000,
  };
}

/** A step's key figures in one line; `-` for what the step did not measure. */
export function stepLine(values: MetricValues): string {
  const show = (name: keyof MetricValues, digits: number): string => values[name]?.toFixed(digits) ?? '-';
  return [
    `reward ${show('reward/mean', 3)}`,
    values['reward/answerAccuracy'] === undefined
      ? `recall ${show('reward/recall', 3)}`
      : `answers ${show('reward/answerAccuracy', 3)}  evidence ${show('reward/evidenceGain', 3)}`,
    `rounds ${show('rollout/meanRounds', 2)}`,
    `entropy ${show('policy/entropy', 2)}`,
    `kl ${show('policy/kl', 3)}`,
  ].join('  ');
}
