/** Fraction of the gold ids among `ids`, in [0, 1]. `gold`: at least one id. */
export function coverage(gold: ReadonlySet<string>, ids: Iterable<string>): number {
  const found = new Set<string>();
  for (const id of ids) if (gold.has(id)) found.add(id);
  return found.size / gold.size;
}
