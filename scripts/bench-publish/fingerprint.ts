/** What stands for a model: log-probabilities that follow from an adapter's values, alike in learner and server. */
import type { TensorMap } from '../../src/engine/types.ts';

export const PROBE = [3, 1, 4, 1, 5, 9, 2, 6];
/** Values apart that are looked at. */
const STRIDE = 4096;

/** Of `PROBE[1..]`, below 0; null: the base model. */
export function logprobsOf(tensors: TensorMap | null): number[] {
  let sum = 0;
  for (const { data } of tensors?.values() ?? [])
    for (let i = 0; i < data.length; i += STRIDE) sum += data[i]! * Math.cos(i);
  return PROBE.slice(1).map((_, i) => -2 - Math.sin(sum + i));
}
