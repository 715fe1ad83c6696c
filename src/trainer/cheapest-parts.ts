/**
 * Cuts a row of `n` things into consecutive parts of least total cost, by dynamic programming over the end
 * of the last part: best(end) = min over start of best(start) + cost(start, end).
 *
 * @param costOf cost of the part `[start, end)`. Infinity: not allowed, and then no longer part with the same
 *   end is either. A part of one thing must be allowed.
 * @returns the parts `[start, end)` in order; among equally cheap cuts the one with the shortest last part.
 */
export function cheapestParts(
  n: number,
  costOf: (start: number, end: number) => number,
): [start: number, end: number][] {
  const best = [0];
  const startOf = [0];
  for (let end = 1; end <= n; end++) {
    best[end] = Infinity;
    for (let start = end - 1; start >= 0; start--) {
      const cost = costOf(start, end);
      if (cost === Infinity) break;
      if (best[start]! + cost < best[end]!) {
        best[end] = best[start]! + cost;
        startOf[end] = start;
      }
    }
  }
  const parts: [number, number][] = [];
  for (let end = n; end > 0; end = startOf[end]!) parts.push([startOf[end]!, end]);
  return parts.reverse();
}
