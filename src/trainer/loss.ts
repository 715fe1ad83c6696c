/**
 * Policy losses as coefficients. Every loss here is a function of the log-probabilities of the sampled
 * tokens, so its gradient is Σ_t (∂L/∂logp_t) ∇logp_t − e Σ_t w_t ∇H_t. This file computes the
 * coefficients from the current log-probabilities; the learner turns them into gradients and never hears
 * an algorithm's name.
 *
 * With ρ_t = exp(logp_t − old_t), A the sample's advantage, c_t the importance weight between sampler and
 * learner, w_t the aggregation weight (Σ over kept tokens):
 *
 *   grpo       −w c min(ρ A, clip(ρ, 1−εl, 1+εh) A)         PPO clip; DAPO's clip-higher is εh > εl
 *   gspo       the same with ρ = exp(mean_t(logp − old)) of the sample      arXiv 2507.18071, eq. 5–7
 *   cispo      −w c sg(min(ρ, 1+εh)) A logp                                arXiv 2506.13585, eq. 4
 *   reinforce  −w c A logp                                                 RLOO with advantage.leaveOneOut
 *
 * aggregation: token    w = 1 / Σ tokens of the step             (DAPO, arXiv 2503.14476)
 *              sequence w = 1 / (samples · tokens of the sample) (the GRPO paper)
 *              constant w = 1 / (samples · constantLength)       (Dr. GRPO, with advantage.scale none)
 * `old` are the learner's log-probabilities before the step's first update; `sampler` are the rollout's.
 * A token masked by the importance correction leaves the numerator and the denominator. gspo takes the
 * correction at sequence level only: its ratio is that of all tokens of the sample.
 */

export interface LossConfig {
  kind: 'grpo' | 'gspo' | 'cispo' | 'reinforce';
  clipLow: number;
  clipHigh: number;
  aggregation: 'token' | 'sequence' | 'constant';
  constantLength: number;
  kl: { coef: number; estimator: 'k1' | 'k2' | 'k3' };
  entropy: number;
  importance: { level: 'token' | 'sequence'; mode: 'none' | 'truncate' | 'mask'; cap: number };
}

/** Flat over the sampled tokens of a step; sample s owns `[offsets[s], offsets[s + 1])`. Nats. */
export interface LossInput {
  offsets: Int32Array;
  /** One advantage a sample, or one a token for return-to-go credit within a trajectory's calls. */
  advantages: Float32Array;
  current: Float32Array;
  old: Float32Array;
  sampler: Float32Array;
  /** Absent when no KL is asked for. */
  reference: Float32Array | null;
  entropies: Float32Array;
}

export interface LossOutput {
  /** ∂L/∂logp and the factor of ∇H, per token. */
  coef: Float32Array;
  entropyCoef: Float32Array;
  loss: number;
  stats: LossStats;
}

/** Means over the kept tokens. `kl` is absent when no reference was given. */
export interface LossStats {
  tokens: number;
  entropy: number;
  clipFraction: number;
  maskedFraction: number;
  ratioMean: number;
  kl?: number;
}

/** exp(20) is the largest ratio that is ever formed: beyond it a sample says nothing but "far away". */
const MAX_LOG_RATIO = 20;
const clampLog = (x: number): number => Math.min(MAX_LOG_RATIO, Math.max(-MAX_LOG_RATIO, x));

/**
 * Sampler-to-learner importance weights `[tokens]`; 0 means masked. Sequence level uses the product over
 * the sample. `mask` drops what is beyond the cap, `truncate` cuts the weight at the cap.
 */
export function importanceWeights(
  old: Float32Array,
  sampler: Float32Array,
  offsets: Int32Array,
  config: LossConfig['importance'],
): Float32Array {
  const weights = new Float32Array(old.length).fill(1);
  if (config.mode === 'none') return weights;
  const limit = (ratio: number): number =>
    ratio <= config.cap ? ratio : config.mode === 'truncate' ? config.cap : 0;
  for (let s = 0; s + 1 < offsets.length; s++) {
    let sum = 0;
    for (let t = offsets[s]!; t < offsets[s + 1]!; t++) {
      const delta = old[t]! - sampler[t]!;
      sum += delta;
      if (config.level === 'token') weights[t] = limit(Math.exp(clampLog(delta)));
    }
    if (config.level === 'sequence')
      weights.fill(limit(Math.exp(clampLog(sum))), offsets[s]!, offsets[s + 1]!);
  }
  return weights;
}

/** KL estimate of one token from d = logp − ref, and its derivative by logp (Schulman, "Approximating KL divergence"). */
export function klTerm(estimator: 'k1' | 'k2' | 'k3', logRatio: number): { value: number; slope: number } {
  const d = clampLog(logRatio);
  switch (estimator) {
    case 'k1':
      return { value: d, slope: 1 };
    case 'k2':
      return { value: 0.5 * d * d, slope: d };
    case 'k3':
      return { value: Math.exp(-d) + d - 1, slope: 1 - Math.exp(-d) };
  }
}

function checkInput(input: LossInput): void {
  const tokens = input.offsets[input.offsets.length - 1] ?? 0;
  const named = {
    advantages: input.advantages,
    current: input.current,
    old: input.old,
    sampler: input.sampler,
    entropies: input.entropies,
  };
  for (const [name, values] of Object.entries({
    ...named,
    ...(input.reference ? { reference: input.reference } : {}),
  })) {
    if (values.length !== tokens)
      throw new RangeError(`${name} has ${values.length} values for ${tokens} sampled tokens`);
    for (let t = 0; t < tokens; t++)
      if (!Number.isFinite(values[t]) || (name !== 'advantages' && values[t]! <= -9000))
        throw new RangeError(`${name} of token ${t} is ${values[t]}: not a value that can be trained on`);
  }
}

/**
 * Loss, statistics and coefficients of a step.
 *
 * @throws RangeError when vectors disagree in length or a value is not finite (or ≤ −9000, a server's
 *   stand-in for minus infinity): such a sample must have been failed before.
 */
export function lossCoefficients(input: LossInput, config: LossConfig): LossOutput {
  checkInput(input);
  const { offsets, advantages, current, old, sampler, reference, entropies } = input;
  const tokens = current.length;
  const importance = importanceWeights(old, sampler, offsets, config.importance);
  const weights = aggregationWeights(offsets, importance, config);
  const coef = new Float32Array(tokens);
  const entropyCoef = new Float32Array(tokens);
  let loss = 0;
  let kept = 0;
  let clipped = 0;
  const sums = { entropy: 0, kl: 0, ratio: 0 };

  for (let s = 0; s + 1 < offsets.length; s++) {
    const start = offsets[s]!;
    const end = offsets[s + 1]!;
    const sequenceRatio = config.kind === 'gspo' ? sampleRatio(current, old, start, end) : 1;
    for (let t = start; t < end; t++) {
      if (importance[t] === 0) continue;
      kept++;
      const w = weights[t]!;
      const ratio = config.kind === 'gspo' ? sequenceRatio : Math.exp(clampLog(current[t]! - old[t]!));
      const term = policyTerm(config, ratio, advantages[t]!, current[t]!);
      if (term.clipped) clipped++;
      loss += w * importance[t]! * term.value;
      let slope = importance[t]! * term.slope;
      if (reference && config.kl.coef > 0) {
        const kl = klTerm(config.kl.estimator, current[t]! - reference[t]!);
        loss += w * config.kl.coef * kl.value;
        slope += config.kl.coef * kl.slope;
      }
      if (reference) sums.kl += klTerm('k3', current[t]! - reference[t]!).value;
      coef[t] = w * slope;
      entropyCoef[t] = -w * config.entropy;
      loss -= w * config.entropy * entropies[t]!;
      sums.entropy += entropies[t]!;
      sums.ratio += ratio;
    }
  }
  const perKept = 1 / Math.max(1, kept);
  return {
    coef,
    entropyCoef,
    loss,
    stats: {
      tokens: kept,
      entropy: sums.entropy * perKept,
      clipFraction: clipped * perKept,
      maskedFraction: 1 - kept / Math.max(1, tokens),
      ratioMean: sums.ratio * perKept,
      ...(reference ? { kl: sums.kl * perKept } : {}),
    },
  };
}

/** exp of the mean log-ratio of a sample: GSPO's length-normalised sequence ratio. */
function sampleRatio(current: Float32Array, old: Float32Array, start: number, end: number): number {
  let sum = 0;
  for (let t = start; t < end; t++) sum += current[t]! - old[t]!;
  return Math.exp(clampLog(sum / Math.max(1, end - start)));
}

/** Value and ∂/∂logp of one token's policy term, before weight and importance. */
function policyTerm(
  config: LossConfig,
  ratio: number,
  advantage: number,
  logprob: number,
): { value: number; slope: number; clipped: boolean } {
  switch (config.kind) {
    case 'reinforce':
      return { value: -advantage * logprob, slope: -advantage, clipped: false };
    case 'cispo': {
      const bounded = Math.min(ratio, 1 + config.clipHigh);
      return { value: -bounded * advantage * logprob, slope: -bounded * advantage, clipped: bounded < ratio };
    }
    case 'grpo':
    case 'gspo': {
      const bounded = Math.min(Math.max(ratio, 1 - config.clipLow), 1 + config.clipHigh);
      const clipped = bounded * advantage < ratio * advantage;
      // GSPO's ratio depends on each of the sample's n tokens with slope ρ/n; its aggregation over n equal
      // terms gives the n back, so per token the slope is ρ A as in the token form.
      return clipped
        ? { value: -bounded * advantage, slope: 0, clipped }
        : { value: -ratio * advantage, slope: -ratio * advantage, clipped };
    }
  }
}

/** w_t of the header; 0 for masked tokens. Denominators count kept tokens and samples, and are at least 1. */
function aggregationWeights(offsets: Int32Array, importance: Float32Array, config: LossConfig): Float32Array {
  const weights = new Float32Array(importance.length);
  const keptOf = (s: number): number => {
    let n = 0;
    for (let t = offsets[s]!; t < offsets[s + 1]!; t++) if (importance[t] !== 0) n++;
    return n;
  };
  const counts = Array.from({ length: Math.max(0, offsets.length - 1) }, (_, s) => keptOf(s));
  const total = Math.max(
    1,
    counts.reduce((a, b) => a + b, 0),
  );
  const samples = Math.max(1, counts.filter((n) => n > 0).length);
  for (let s = 0; s < counts.length; s++) {
    const w =
      config.aggregation === 'token'
        ? 1 / total
        : 1 /
          (samples * (config.aggregation === 'sequence' ? Math.max(1, counts[s]!) : config.constantLength));
    for (let t = offsets[s]!; t < offsets[s + 1]!; t++) weights[t] = importance[t] === 0 ? 0 : w;
  }
  return weights;
}
