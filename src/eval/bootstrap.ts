/** Bootstrap intervals over questions (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993). */
import type { Random } from '../base/random.ts';
import { mean } from '../base/statistics.ts';

export interface Interval {
  mean: number;
  /** Percentiles of the resampled means that leave out the same share on both sides: 2.5 and 97.5 at 95 %. */
  low: number;
  high: number;
}

/**
 * Mean with its percentile interval (`confidence` in (0, 1)) over `draws` resamples of the values with
 * replacement. Throws for no values.
 */
export function meanInterval(
  values: readonly number[],
  random: Random,
  draws = 10_000,
  confidence = 0.95,
): Interval {
  const center = mean(values);
  const means = new Float64Array(draws);
  for (let i = 0; i < draws; i++) {
    let sum = 0;
    for (let j = 0; j < values.length; j++) sum += values[random.int(values.length)]!;
    means[i] = sum / values.length;
  }
  means.sort();
  const tail = (1 - confidence) / 2;
  return { mean: center, low: percentile(means, tail), high: percentile(means, 1 - tail) };
}

/**
 * Paired bootstrap: mean of `after − before` with its interval, questions resampled in pairs, so that what
 * makes a question easy for both cancels. The lists are in the same order of questions; throws if their
 * lengths differ.
 */
export function pairedDifference(
  before: readonly number[],
  after: readonly number[],
  random: Random,
  draws = 10_000,
  confidence = 0.95,
): Interval {
  if (before.length !== after.length) {
    throw new Error(`paired values must match: ${before.length} before, ${after.length} after`);
  }
  return meanInterval(
    after.map((value, i) => value - before[i]!),
    random,
    draws,
    confidence,
  );
}

/** Linear interpolation between the order statistics of a sorted list. */
function percentile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below]! + (at - below) * (sorted[above]! - sorted[below]!);
}
