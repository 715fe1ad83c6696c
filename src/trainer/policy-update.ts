/** One GRPO step of the learner: pack the credited calls, form the coefficients, update. */

import type { CreditedCall } from './credit.ts';
import type { Learner, Weights } from './learner/learner.ts';
import { type LossConfig, type LossStats, lossCoefficients } from './loss.ts';
import { type Packed, packSamples, rowsToTokens, type TreeLimits, tokensToRows } from './token-tree.ts';

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
  /** Updates whose gradient was not finite, and so left out. */
  skipped: number;
  tokensBefore: number;
  tokensAfter: number;
}

/**
 * A call must have one usable log-probability for each sampled token. Checked call by call: in the flat
 * vectors of a step a value too many here and one too few there would only shift what lies between.
 */
function checkCall({ trajectory, call }: CreditedCall): void {
  const { outputIds, logprobs } = trajectory.calls[call]!;
  const fail = (what: string): never => {
    const { step, queryId, member } = trajectory;
    throw new RangeError(`step ${step}, question ${queryId}, member ${member}, call ${call}: ${what}`);
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
 * @throws RangeError that names the call when a log-probability is missing, not finite or a server's
 *   stand-in for minus infinity. Nothing has changed then.
 */
export async function updatePolicy(
  learner: Learner,
  calls: readonly CreditedCall[],
  rateOf: (epoch: number) => number,
  config: UpdateConfig,
): Promise<UpdateStats> {
  for (const call of calls) checkCall(call);
  const records = calls.map(({ trajectory, call }) => trajectory.calls[call]!);
  const packed = packSamples(records, config.limits);
  const advantages = Float32Array.from(
    calls.flatMap(({ advantage }, s) => records[s]!.outputIds.map(() => advantage)),
  );
  const sampler = Float32Array.from(records.flatMap((record) => record.logprobs));
  const old = await tokenValues(learner, packed, 'policy', config.temperature);
  const reference =
    config.loss.kl.coef > 0
      ? (await tokenValues(learner, packed, 'reference', config.temperature)).logprobs
      : null;

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
