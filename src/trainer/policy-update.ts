/** One GRPO step of the learner: pack the credited calls, form the coefficients, update. */

import type { CreditedCall } from './credit.ts';
import type { Learner, Weights } from './learner/learner.ts';
import { type LossConfig, type LossStats, lossCoefficients } from './loss.ts';
import { type Mismatch, measureMismatch } from './mismatch.ts';
import {
  type Packed,
  packSamples,
  rowsToTokens,
  type Sample,
  type TreeLimits,
  tokensToRows,
} from './token-tree.ts';

export interface UpdateConfig {
  loss: LossConfig;
  limits: TreeLimits;
  /** The sampling temperature: both log-softmaxes use it. */
  temperature: number;
  /** Updates on the same step's calls. */
  epochs: number;
}

export interface UpdateStats extends LossStats {
  loss: number;
  gradNorm: number;
  /** Between the sampler and the learner before its first update. */
  mismatch: Mismatch;
  /** Updates whose gradient was not finite, and so left out. */
  skipped: number;
  tokensBefore: number;
  tokensAfter: number;
}

/** What is trained on: an agent call, and the advantage that its sampled tokens share. */
export interface TrainedSample extends Sample {
  /** The sampler's, of each of `outputIds`, in nats. */
  logprobs: number[];
  advantage: number;
}

/** A sample that must not be trained on, and was not: what let it come so far is at fault. */
export class UnusableSample extends RangeError {
  override name = 'UnusableSample';
  constructor(
    readonly sample: string,
    what: string,
  ) {
    super(`${sample}: ${what}`);
  }
}

/**
 * A sample must have one usable log-probability for each sampled token. Checked one by one: in the flat
 * vectors of a step a value too many here and one too few there would only shift what lies between.
 */
function checkSample({ outputIds, logprobs }: TrainedSample, name: string): void {
  const fail = (what: string): never => {
    throw new UnusableSample(name, what);
  };
  if (logprobs.length !== outputIds.length)
    fail(`${logprobs.length} log-probabilities for ${outputIds.length} sampled tokens`);
  const bad = logprobs.find((value) => !Number.isFinite(value) || value <= -9000);
  if (bad !== undefined) fail(`a log-probability is ${bad}: such a sample cannot be trained on`);
}

/** Per-token values of all passes under some weights. */
async function tokenValues(
  learner: Learner,
  packed: Packed,
  weights: Weights,
  temperature: number,
): Promise<{ logprobs: Float32Array; entropies: Float32Array }> {
  const tokens = packed.offsets[packed.offsets.length - 1]!;
  const logprobs = new Float32Array(tokens);
  const entropies = new Float32Array(tokens);
  for (const pass of packed.passes) {
    const rows = await learner.rowValues(pass.batch, weights, temperature);
    rowsToTokens(pass, rows.logprobs, logprobs);
    rowsToTokens(pass, rows.entropies, entropies);
  }
  return { logprobs, entropies };
}

/**
 * Trains on the calls. The learner's own log-probabilities before the first update are `old`; the
 * rollout's correct for the sampler. Statistics are those of the first epoch, before any update, but for
 * `ratioMean` and `clipFraction`, which say nothing there: they are the last epoch's.
 *
 * @throws UnusableSample that names the call when a log-probability is missing, not finite or a server's
 *   stand-in for minus infinity. Nothing has changed then.
 */
export async function updatePolicy(
  learner: Learner,
  calls: readonly CreditedCall[],
  rateOf: (epoch: number) => number,
  config: UpdateConfig,
): Promise<UpdateStats> {
  const samples = calls.map(({ trajectory, call, advantage }) => {
    const { promptIds, outputIds, logprobs } = trajectory.calls[call]!;
    return { promptIds, outputIds, logprobs, advantage };
  });
  return updateOnSamples(learner, samples, rateOf, config, (s) => {
    const { trajectory, call } = calls[s]!;
    const { step, queryId, member } = trajectory;
    return `step ${step}, question ${queryId}, member ${member}, call ${call}`;
  });
}

/** `updatePolicy` on samples wherever they come from; `nameOf` names one in errors. */
export async function updateOnSamples(
  learner: Learner,
  samples: readonly TrainedSample[],
  rateOf: (epoch: number) => number,
  config: UpdateConfig,
  nameOf: (sample: number) => string = (sample) => `sample ${sample}`,
): Promise<UpdateStats> {
  for (const [s, sample] of samples.entries()) checkSample(sample, nameOf(s));
  return updatePacked(learner, packSamples(samples, config.limits), samples, rateOf, config);
}

/** The same for samples that are packed already, in the order in which they were packed. */
export async function updatePacked(
  learner: Learner,
  packed: Packed,
  samples: readonly TrainedSample[],
  rateOf: (epoch: number) => number,
  config: Omit<UpdateConfig, 'limits'>,
): Promise<UpdateStats> {
  const advantages = Float32Array.from(
    samples.flatMap(({ advantage, outputIds }) => outputIds.map(() => advantage)),
  );
  const sampler = Float32Array.from(samples.flatMap(({ logprobs }) => logprobs));
  const old = await tokenValues(learner, packed, 'policy', config.temperature);
  const reference =
    config.loss.kl.coef > 0
      ? (await tokenValues(learner, packed, 'reference', config.temperature)).logprobs
      : null;

  const mismatch = measureMismatch(sampler, old.logprobs);
  let current = old;
  let stats: UpdateStats | null = null;
  for (let epoch = 0; epoch < config.epochs; epoch++) {
    if (epoch > 0) current = await tokenValues(learner, packed, 'policy', config.temperature);
    const out = lossCoefficients(
      {
        offsets: packed.offsets,
        advantages,
        current: current.logprobs,
        old: old.logprobs,
        sampler,
        reference,
        entropies: current.entropies,
      },
      config.loss,
    );
    for (const pass of packed.passes)
      await learner.accumulate(
        pass.batch,
        tokensToRows(pass, out.coef),
        tokensToRows(pass, out.entropyCoef),
        config.temperature,
      );
    const { gradNorm, applied } = await learner.update(rateOf(epoch));
    stats ??= {
      ...out.stats,
      loss: out.loss,
      gradNorm,
      mismatch,
      skipped: 0,
      tokensBefore: packed.tokensBefore,
      tokensAfter: packed.tokensAfter,
    };
    stats.ratioMean = out.stats.ratioMean;
    stats.clipFraction = out.stats.clipFraction;
    if (!applied) stats.skipped += 1;
  }
  return stats!;
}
