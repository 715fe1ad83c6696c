/**
 * The model behind the hostile endpoint: next-token distributions from token ids and an adapter's tensors, by a
 * formula that a test can repeat. A test may put another in its place, such as the table policy of the trainer's
 * tests, whose learner computes the same numbers.
 */
import { loraScale } from '../../src/engine/peft.ts';
import type { Adapter } from '../../src/engine/types.ts';

export interface FakeModel {
  vocab: number;
  /** Ends an output. */
  endId: number;
  /** Natural log-probabilities `[vocab]` of what follows `ids`, which are not empty; temperature > 0. */
  logprobs(ids: readonly number[], adapter: Adapter | null, temperature: number): ArrayLike<number>;
}

/**
 * How far an adapter moves the fake model: its scale times the sum of all entries of all its B·A. Zero for a
 * fresh adapter (B is zero), and as good as never the same for two different ones.
 */
export function adapterShift(adapter: Adapter | null): number {
  if (!adapter) return 0;
  let sum = 0;
  for (const [name, b] of adapter.tensors) {
    if (!name.includes('.lora_B.')) continue;
    const a = adapter.tensors.get(name.replace('.lora_B.', '.lora_A.'))!;
    const [rank, inputs] = a.shape as [number, number];
    for (let k = 0; k < rank; k++) {
      let rowOfA = 0;
      let columnOfB = 0;
      for (let j = 0; j < inputs; j++) rowOfA += a.data[k * inputs + j]!;
      for (let i = 0; i < b.shape[0]!; i++) columnOfB += b.data[i * rank + k]!;
      sum += columnOfB * rowOfA;
    }
  }
  return loraScale(adapter.spec) * sum;
}

/** log_softmax(logits / temperature), in f64. */
function logSoftmax(logits: readonly number[], temperature: number): Float64Array {
  const scaled = Float64Array.from(logits, (x) => x / temperature);
  const top = scaled.reduce((a, b) => Math.max(a, b));
  const norm = top + Math.log(scaled.reduce((sum, x) => sum + Math.exp(x - top), 0));
  return scaled.map((x) => x - norm);
}

/**
 * Logit of token v: 2 sin((v + 1) x), where x = 0.37 + shift + Σ sin(1.7 id + 0.31 position). Every id, its
 * place and the adapter change every log-probability.
 */
export const fakeModel: FakeModel = {
  vocab: 32,
  endId: 1,
  logprobs(ids, adapter, temperature) {
    const shift = adapterShift(adapter);
    const x = ids.reduce((sum, id, at) => sum + Math.sin(1.7 * id + 0.31 * at), 0.37 + shift);
    const logits = Array.from({ length: this.vocab }, (_, v) => 2 * Math.sin((v + 1) * x));
    return logSoftmax(logits, temperature);
  },
};

/** Log-probabilities of `ids[1..]` at temperature 1: what an honest answer says of a prompt. */
export const promptLogprobs = (model: FakeModel, ids: readonly number[], adapter: Adapter | null): number[] =>
  ids.slice(1).map((id, t) => model.logprobs(ids.slice(0, t + 1), adapter, 1)[id]!);
