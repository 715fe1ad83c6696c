/**
 * A compiled training (or scoring) graph of one model folder: forward, and optionally backward, as one
 * ONNX graph on onnxruntime.
 */
import type { LoraSpec, RowValues, TensorMap, TreeBatch } from './types.ts';

export interface TrainingSessionOptions {
  /** Model folder in Hugging Face layout: config.json and .safetensors. */
  folder: string;
  /** Adapter shape; null for no adapter. Required in mode `lora` when gradients are wanted. */
  lora: LoraSpec | null;
  /** `lora`: base weights are frozen; `full`: every weight is a parameter, named as in the model's files. */
  mode: 'lora' | 'full';
  /** false: forward only, no `gradients` in the result. */
  gradients: boolean;
  /** Threads of one operation, ≥ 1. */
  threads: number;
}

export interface TrainingSession {
  /** Names and shapes of the parameters `run` expects, in the order of the gradients. */
  readonly parameters: ReadonlyMap<string, number[]>;
  /**
   * One pass. The surrogate is S = Σ_rows coef[r] · logprob[r] + entropyCoef[r] · entropy[r]; `gradients`
   * is dS/dparameter (ascend it). `scale` is LoRA's alpha / r (0: the base model). `temperature` divides
   * the logits, default 1. `coef` and `entropyCoef` default to zeros. Same inputs, same bytes.
   */
  run(
    batch: TreeBatch,
    params: TensorMap,
    scale: number,
    coef?: Float32Array,
    entropyCoef?: Float32Array,
    temperature?: number,
  ): Promise<{ rows: RowValues; gradients?: TensorMap }>;
  release(): Promise<void>;
}

export async function createTrainingSession(_options: TrainingSessionOptions): Promise<TrainingSession> {
  throw new Error('not built yet');
}
