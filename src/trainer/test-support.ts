/**
 * For the trainer's own tests: a policy small enough to be exact. Its logits are a table, previous token →
 * next token, to which a LoRA adapter adds B · A with A the identity, so that B is the trained table. The
 * learner and the endpoint compute it in f64 by the same functions, and nothing of it comes from the engine.
 */
import { stream } from '../base/random.ts';
import { loraScale } from '../engine/peft.ts';
import { copyAdapter } from '../engine/tensors.ts';
import type { Adapter, RowValues, TensorMap, TreeBatch } from '../engine/types.ts';
import { copyState, type Learner, type LearnerState, type Weights } from './learner/learner.ts';
import { adamwStep, createOptimizerState, type OptimizerConfig } from './optimizer.ts';

/** Base logits `[vocab × vocab]`, row-major by previous token. Token 0 ends an output. */
export interface TableModel {
  vocab: number;
  base: Float64Array;
}

export const END = 0;
export const BASE_MODEL = 'table-base';

/** Random base logits of standard deviation `spread`; 0 is the uniform policy. */
export function tableModel(vocab: number, spread = 0, seed = 1): TableModel {
  const random = stream(seed, 'table');
  return { vocab, base: Float64Array.from({ length: vocab * vocab }, () => spread * random.normal()) };
}

const NAME = 'base_model.model.model.layers.0.self_attn.q_proj';
const A = `${NAME}.lora_A.weight`;
const B = `${NAME}.lora_B.weight`;

/** An adapter whose table (B) is random with standard deviation `spread`; 0 is a no-op. */
export function tableAdapter({ vocab }: TableModel, spread = 0, seed = 1): Adapter {
  const random = stream(seed, 'table-adapter');
  const shape = [vocab, vocab];
  const a = Float32Array.from({ length: vocab * vocab }, (_, i) => (i % (vocab + 1) === 0 ? 1 : 0));
  const b = Float32Array.from({ length: vocab * vocab }, () => (spread === 0 ? 0 : spread * random.normal()));
  return {
    spec: { r: vocab, alpha: vocab, rslora: false, targets: ['q_proj'] },
    tensors: new Map([
      [A, { shape, data: a }],
      [B, { shape: [...shape], data: b }],
    ]),
  };
}

/** Log-probabilities of every next token after `previous`, at a temperature above 0. */
export function tableLogprobs(
  { vocab, base }: TableModel,
  adapter: Adapter | null,
  previous: number,
  temperature: number,
): Float64Array {
  const logits = base.slice(previous * vocab, (previous + 1) * vocab);
  if (adapter) {
    const scale = loraScale(adapter.spec);
    const a = adapter.tensors.get(A)!.data;
    const b = adapter.tensors.get(B)!.data;
    for (let next = 0; next < vocab; next++)
      for (let k = 0; k < vocab; k++)
        logits[next]! += scale * b[next * vocab + k]! * a[k * vocab + previous]!;
  }
  for (let j = 0; j < vocab; j++) logits[j]! /= temperature;
  const top = Math.max(...logits);
  const norm = top + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - top), 0));
  return logits.map((x) => x - norm);
}

export const freshState = (adapter: Adapter): LearnerState => ({
  adapter: copyAdapter(adapter),
  reference: null,
  optimizer: createOptimizerState(adapter.tensors),
});

export interface TableLearner extends Learner {
  /** The next so many updates meet a gradient that is not a number. */
  poison(updates: number): void;
  /** How often each was called. */
  counts: { accumulate: number; update: number };
}

const OPTIMIZER: OptimizerConfig = { betas: [0.9, 0.99], eps: 1e-8, weightDecay: 0, clipNorm: 1e9 };

/** A learner over the table. A stays the identity; gradients gather in f64. */
export function createTableLearner(
  model: TableModel,
  start: LearnerState,
  optimizer: OptimizerConfig = OPTIMIZER,
): TableLearner {
  const { vocab } = model;
  const state = copyState(start);
  let gradient: Float64Array | null = null;
  let poisoned = 0;
  const counts = { accumulate: 0, update: 0 };
  const previousOf = (batch: TreeBatch, row: number): number => batch.ids[batch.hiddenIndex[row]!]!;
  const weightsOf = (weights: Weights): Adapter | null =>
    weights === 'policy' ? state.adapter : weights === 'reference' ? state.reference : null;

  function valuesOf(batch: TreeBatch, weights: Weights, temperature: number): RowValues {
    const logprobs = new Float32Array(batch.targetId.length);
    const entropies = new Float32Array(batch.targetId.length);
    for (const [row, target] of batch.targetId.entries()) {
      const logs = tableLogprobs(model, weightsOf(weights), previousOf(batch, row), temperature);
      logprobs[row] = logs[target]!;
      entropies[row] = -logs.reduce((sum, x) => sum + Math.exp(x) * x, 0);
    }
    return { logprobs, entropies };
  }

  return {
    counts,
    poison: (updates) => {
      poisoned = updates;
    },
    rowValues: async (batch, weights, temperature) => valuesOf(batch, weights, temperature),
    async accumulate(batch, coef, entropyCoef, temperature) {
      counts.accumulate++;
      gradient ??= new Float64Array(vocab * vocab);
      const { adapter } = state;
      const scale = loraScale(adapter.spec);
      const a = adapter.tensors.get(A)!.data;
      for (const [row, target] of batch.targetId.entries()) {
        const previous = previousOf(batch, row);
        const logs = tableLogprobs(model, adapter, previous, temperature);
        const entropy = -logs.reduce((sum, x) => sum + Math.exp(x) * x, 0);
        for (let j = 0; j < vocab; j++) {
          const p = Math.exp(logs[j]!);
          const slope =
            coef[row]! * ((j === target ? 1 : 0) - p) - entropyCoef[row]! * p * (logs[j]! + entropy);
          for (let k = 0; k < vocab; k++)
            gradient[j * vocab + k]! += ((slope * scale) / temperature) * a[k * vocab + previous]!;
        }
      }
      return valuesOf(batch, 'policy', temperature);
    },
    async update(learningRate) {
      if (gradient === null) throw new Error('update without a gradient');
      counts.update++;
      const data = Float32Array.from(gradient);
      gradient = null;
      if (poisoned > 0) {
        poisoned--;
        data[0] = Number.NaN;
      }
      const gradients: TensorMap = new Map([
        [A, { shape: [vocab, vocab], data: new Float32Array(data.length) }],
        [B, { shape: [vocab, vocab], data }],
      ]);
      return adamwStep(state.adapter.tensors, gradients, state.optimizer, learningRate, optimizer);
    },
    async freezeReference() {
      state.reference = copyAdapter(state.adapter);
      state.optimizer = createOptimizerState(state.adapter.tensors);
    },
    state: async () => copyState(state),
    async close() {},
  };
}
