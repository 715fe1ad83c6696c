/** What the soak knows for certain: the weights of every version, and so every log-probability of the fake model. */
import { stream } from '../../src/base/random.ts';
import type { Adapter } from '../../src/engine/types.ts';
import type { Replicas } from '../../src/rollout/replicas.ts';
import type { Learner } from '../../src/trainer/learner/learner.ts';
import { fakeModel } from '../../test/hostile-endpoint/hostile-endpoint.ts';

const MODULE = 'base_model.model.model.layers.0.self_attn.q_proj';

/** The smallest adapter that moves the fake model by `shift`. */
export function adapterOf(shift: number): Adapter {
  return {
    spec: { r: 1, alpha: 1, rslora: false, targets: ['q_proj'] },
    tensors: new Map([
      [`${MODULE}.lora_A.weight`, { shape: [1, 2], data: Float32Array.of(1, 0) }],
      [`${MODULE}.lora_B.weight`, { shape: [2, 1], data: Float32Array.of(shift, 0) }],
    ]),
  };
}

/**
 * Adapters of the versions 0…count − 1: a walk whose steps are between 1 and 1e-4, as training's are: the
 * smallest move the log-probabilities by less than the tolerance of the proof.
 */
export function walk(seed: number, name: string, count: number): Adapter[] {
  const random = stream(seed, 'soak', 'walk', name);
  let shift = 0.5;
  return Array.from({ length: count }, () => {
    shift += (random.next() < 0.5 ? -1 : 1) * 10 ** (-4 * random.next());
    return adapterOf(shift);
  });
}

/** A learner that only tells log-probabilities: all that a publication asks of one. */
export function learnerOf(adapter: Adapter): Learner {
  const never = (): never => {
    throw new Error('the soak trains nothing');
  };
  return {
    async rowValues({ ids, hiddenIndex, targetId }, weights) {
      const whose = weights === 'base' ? null : adapter;
      const logprobs = Float32Array.from(
        targetId,
        (id, row) => fakeModel.logprobs(Array.from(ids.slice(0, hiddenIndex[row]! + 1)), whose, 1)[id]!,
      );
      return { logprobs, entropies: new Float32Array(logprobs.length) };
    },
    accumulate: never,
    update: never,
    freezeReference: never,
    state: never,
    async close() {},
  };
}

type Answer = Awaited<ReturnType<Replicas['complete']>>;

/** JSON keeps every bit of a double; the sum of a softmax may be taken in another order. */
const EXACT = 1e-9;

/** Whether the answer's log-probabilities are those of `adapter` (null: the base model), to rounding. */
export function isBy({ promptIds, outputIds, logprobs }: Answer, adapter: Adapter | null): boolean {
  return outputIds.every((id, t) => {
    const row = fakeModel.logprobs([...promptIds, ...outputIds.slice(0, t)], adapter, 1);
    return Math.abs(row[id]! - logprobs[t]!) <= EXACT;
  });
}
