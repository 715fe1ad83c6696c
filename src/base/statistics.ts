/** Arithmetic mean. Throws for an empty list, whose mean is not a number. */
export function mean(values: readonly number[]): number {
  if (values.length === 0) throw new Error('the mean of no values');
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** Standard deviation of the values themselves (divided by n, not n − 1). Throws for an empty list. */
export function std(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
}

/** The middle value, of an even number the mean of the two in the middle. Throws for an empty list. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('the median of no values');
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}
