import type { Query } from '../env/types.ts';

/**
 * Positions of the validation questions by whether any of their gold articles is also gold in training.
 * What a policy remembers helps only the first.
 */
export function splitBySeenGold(
  train: readonly Query[],
  validation: readonly Query[],
): { seen: number[]; unseen: number[] } {
  const known = new Set(train.flatMap(({ gold }) => gold));
  const seen: number[] = [];
  const unseen: number[] = [];
  validation.forEach(({ gold }, i) => {
    (gold.some((id) => known.has(id)) ? seen : unseen).push(i);
  });
  return { seen, unseen };
}
