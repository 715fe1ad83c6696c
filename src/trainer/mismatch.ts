/**
 * How far sampler and learner are apart on the tokens that were sampled, and when that is an alarm.
 *
 * Both should give the same log-probabilities under the same weights. Where they do not (another dtype, another
 * temperature, a stale adapter, ids out of place), the importance correction hides it from the loss: so it is
 * measured at each step, before the first update. With q the sampler's and p the learner's probabilities of the
 * sampled tokens, d = log q − log p, and means over the tokens, which are draws from q:
 *
 *   mean, max    |d|
 *   k1           mean d                     KL(q‖p), unbiased; may be below 0; exp(k1) is the learner's
 *                                           perplexity over the sampler's
 *   k3           mean exp(−d) − 1 + d       KL(q‖p), never below 0       (Schulman, "Approximating KL divergence")
 *   chiSquare    mean exp(−2d) − 1          χ²(p‖q): tokens count as 1 / (1 + χ²) of their number
 */
import { klTerm } from './loss.ts';

/** Nats, but for `chiSquare`; all 0 where there is no token. */
export interface Mismatch {
  mean: number;
  max: number;
  k1: number;
  k3: number;
  chiSquare: number;
}

/** What a step may show; above it is an alarm. `stopAfter` steps in a row above end the run; null: never. */
export interface MismatchLimits {
  /** Of `Mismatch.mean` and `max`, nats. */
  meanAbs: number;
  maxAbs: number;
  /** Of `Mismatch.k3`, nats. */
  kl: number;
  /** Share of the tokens that the importance correction leaves out. */
  maskedFraction: number;
  stopAfter: number | null;
}

/** @throws RangeError when the two differ in length: no token then has the other's value beside it. */
export function measureMismatch(sampler: Float32Array, learner: Float32Array): Mismatch {
  const tokens = learner.length;
  if (sampler.length !== tokens)
    throw new RangeError(`${sampler.length} log-probabilities of the sampler, ${tokens} of the learner`);
  const sums = { mean: 0, max: 0, k1: 0, k3: 0, chiSquare: 0 };
  for (let t = 0; t < tokens; t++) {
    const d = sampler[t]! - learner[t]!;
    sums.mean += Math.abs(d);
    sums.max = Math.max(sums.max, Math.abs(d));
    sums.k1 += d;
    const k3 = klTerm('k3', d).value;
    sums.k3 += k3;
    // exp(−2d) − 1 = r² − 1 = (r − 1)(r + 1) with the bounded r of k3
    const more = k3 - klTerm('k1', d).value;
    sums.chiSquare += more * (more + 2);
  }
  const of = (sum: number): number => sum / Math.max(1, tokens);
  return {
    mean: of(sums.mean),
    max: sums.max,
    k1: of(sums.k1),
    k3: of(sums.k3),
    chiSquare: of(sums.chiSquare),
  };
}

/**
 * The limits where samples come from the tokens that hold the share `topP`: the sampler's values are then higher
 * than the learner's by −ln of the mass that was kept, which is −ln topP at most, with nothing wrong. What top-k
 * cuts off has no such bound.
 */
export function limitsUnder(limits: MismatchLimits, topP: number): MismatchLimits {
  const most = -Math.log(topP);
  return { ...limits, meanAbs: limits.meanAbs + most, kl: limits.kl + klTerm('k3', most).value };
}

/**
 * The limits where an older version sampled: the learner has moved on since, so how far apart the two are says
 * little of whether something is wrong, and only what the correction leaves out is judged.
 */
export const limitsWhenStale = (limits: MismatchLimits): MismatchLimits => ({
  ...limits,
  meanAbs: Number.POSITIVE_INFINITY,
  maxAbs: Number.POSITIVE_INFINITY,
  kl: Number.POSITIVE_INFINITY,
});

/** One phrase for each limit that is exceeded; a figure that is not a number exceeds its limit. */
export function mismatchAlarms(
  { mismatch, maskedFraction }: { mismatch: Mismatch; maskedFraction: number },
  limits: MismatchLimits,
): string[] {
  const figures: [string, number, keyof MismatchLimits, number][] = [
    ['mean |Δ log-prob|', mismatch.mean, 'meanAbs', limits.meanAbs],
    ['max |Δ log-prob|', mismatch.max, 'maxAbs', limits.maxAbs],
    ['KL(sampler‖learner), k3', mismatch.k3, 'kl', limits.kl],
    ['masked fraction', maskedFraction, 'maskedFraction', limits.maskedFraction],
  ];
  return figures
    .filter(([, value, , limit]) => !(value <= limit))
    .map(
      ([name, value, key, limit]) =>
        `${name} ${Number(value.toPrecision(3))} (${key} ${Number(limit.toPrecision(3))})`,
    );
}
