/**
 * Picking a token from a row of log-probabilities. The row that is sampled is the row that is reported: it
 * has its temperature from the engine, and is cut by `nucleus.ts` where top-p or top-k ask for it.
 */

/**
 * The token at which the running sum of probabilities passes `uniform` (inverse of the distribution
 * function, in id order). `uniform` is in [0, 1). Rounding may leave the sum a little below 1: then the
 * last token with a probability is taken. Returns −1 when the row is not a distribution (NaN).
 */
export function sampleToken(
  logprobs: Float32Array,
  offset: number,
  vocabulary: number,
  uniform: number,
): number {
  let sum = 0;
  let last = -1;
  for (let i = 0; i < vocabulary; i++) {
    const p = Math.exp(logprobs[offset + i]!);
    if (p > 0) last = i;
    sum += p;
    if (sum > uniform) return i;
  }
  return Number.isNaN(sum) ? -1 : last;
}

/** The most likely token, the lower id among equals; −1 when the row holds a NaN. */
export function argmaxToken(logprobs: Float32Array, offset: number, vocabulary: number): number {
  let best = -1;
  let most = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < vocabulary; i++) {
    const value = logprobs[offset + i]!;
    if (Number.isNaN(value)) return -1;
    if (value > most) {
      most = value;
      best = i;
    }
  }
  return best;
}

/** Tokens at least as likely as `token`, itself included: 1 for the most likely. */
export function rankOf(logprobs: Float32Array, offset: number, vocabulary: number, token: number): number {
  const own = logprobs[offset + token]!;
  let rank = 0;
  for (let i = 0; i < vocabulary; i++) if (logprobs[offset + i]! >= own) rank++;
  return rank;
}
