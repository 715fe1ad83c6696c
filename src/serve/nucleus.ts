/**
 * Top-k and top-p: the sampled distribution cut to its most likely tokens and renormalised, as vLLM's
 * processed log-probabilities are. Top-k first, then top-p over what that kept.
 */

/**
 * The row `[vocabulary]` at `offset`, log-probabilities in nats, cut: −∞ outside, log-probabilities that sum
 * to 1 inside. `topK`: the k most likely tokens; 0 keeps all. `topP`, in (0, 1]: the fewest tokens, most likely
 * first, that hold this share. A token as likely as the last one kept is kept too, so that the order of ids
 * decides nothing. A row with a NaN comes back as it is.
 */
export function nucleus(
  logprobs: Float32Array,
  offset: number,
  vocabulary: number,
  topP: number,
  topK: number,
): Float32Array {
  const row = logprobs.slice(offset, offset + vocabulary);
  const ascending = row.slice().sort();
  // NaN is sorted to the end
  if (Number.isNaN(ascending[vocabulary - 1])) return row;
  let least = topK > 0 && topK < vocabulary ? ascending[vocabulary - topK]! : Number.NEGATIVE_INFINITY;
  if (topP < 1) {
    const wanted = topP * massFrom(row, least);
    let mass = 0;
    let i = vocabulary;
    while (i > 0 && mass < wanted && ascending[i - 1]! >= least) mass += Math.exp(ascending[--i]!);
    least = ascending[i]!;
  }
  const logMass = Math.log(massFrom(row, least));
  return row.map((value) => (value >= least ? value - logMass : Number.NEGATIVE_INFINITY));
}

/** Probability of all tokens whose log-probability is at least `least`. */
function massFrom(row: Float32Array, least: number): number {
  let mass = 0;
  for (const value of row) if (value >= least) mass += Math.exp(value);
  return mass;
}
