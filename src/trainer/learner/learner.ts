/**
 * The learner's contract. It is blind to the algorithm: it gets token trees whose rows carry coefficients,
 * and an optimiser setting, and gives back per-row values and a new adapter.
 */
import { copyAdapter } from '../../engine/tensors.ts';
import type { Adapter, LoraSpec, RowValues, TreeBatch } from '../../engine/types.ts';
import type { OptimizerConfig, OptimizerState } from '../optimizer.ts';

/** Whose log-probabilities: the adapter being trained, its frozen starting copy, or the base model alone. */
export type Weights = 'policy' | 'reference' | 'base';

/** What a checkpoint keeps of a learner. `reference` is null when the run starts from the base model. */
export interface LearnerState {
  adapter: Adapter;
  reference: Adapter | null;
  optimizer: OptimizerState;
}

const copyMoments = (moments: Map<string, Float32Array>): Map<string, Float32Array> =>
  new Map([...moments].map(([name, data]) => [name, data.slice()]));

/** A copy that shares no array with the state. */
export const copyState = ({ adapter, reference, optimizer }: LearnerState): LearnerState => ({
  adapter: copyAdapter(adapter),
  reference: reference && copyAdapter(reference),
  optimizer: {
    step: optimizer.step,
    first: copyMoments(optimizer.first),
    second: copyMoments(optimizer.second),
  },
});

export interface Learner {
  /** Log-probabilities and entropies (nats) of a batch's rows at a sampling temperature. */
  rowValues(batch: TreeBatch, weights: Weights, temperature: number): Promise<RowValues>;
  /**
   * Adds the gradient of Σ_r coef[r] · logprob_r + entropyCoef[r] · entropy_r to what has gathered since
   * the last update. `coef` and `entropyCoef` are `[rows]`.
   */
  accumulate(
    batch: TreeBatch,
    coef: Float32Array,
    entropyCoef: Float32Array,
    temperature: number,
  ): Promise<RowValues>;
  /** One optimiser update with the gathered gradient, which is then empty again. */
  update(learningRate: number): Promise<{ gradNorm: number; applied: boolean }>;
  /** The adapter as it is becomes the frozen `reference`, and the optimiser starts anew: a phase has ended. */
  freezeReference(): Promise<void>;
  /** A copy of everything that a resumed run needs. */
  state(): Promise<LearnerState>;
  close(): Promise<void>;
}

export interface LearnerOptions {
  modelFolder: string;
  spec: LoraSpec;
  optimizer: OptimizerConfig;
  threads: number;
  start: LearnerState;
}
