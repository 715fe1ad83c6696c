/**
 * A compiled training (or scoring) graph of one model folder: forward, and optionally backward, as one
 * ONNX graph on onnxruntime.
 */
import { createGraph } from './graph.ts';
import { checkParams } from './model-graph.ts';
import { createSession, type Value } from './onnx/session.ts';
import { buildTrainingGraph } from './training-graph.ts';
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
  readonly parameters: ReadonlyMap<string, readonly number[]>;
  /**
   * One pass. The surrogate is S = Σ_rows coef[r] · logprob[r] + entropyCoef[r] · entropy[r]; `gradients`
   * is dS/dparameter (ascend it). `scale` is LoRA's alpha / r (0: the base model). `temperature` divides
   * the logits, default 1. `coef` and `entropyCoef` default to zeros. At least one row. Same inputs, same
   * bytes.
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

/** Compiles a session; reads the config and the weights' headers. UserError when they do not fit. */
export async function createTrainingSession(options: TrainingSessionOptions): Promise<TrainingSession> {
  const { outputs, parameters: nodes, entries } = buildTrainingGraph(createGraph(), options);
  const parameters = new Map([...nodes].map(([name, node]) => [name, node.shape as readonly number[]]));
  const session = await createSession(outputs, {
    weights: entries,
    threads: options.threads,
    prepack: false,
    arena: true,
  });
  return {
    parameters,
    async run(batch, params, scale, coef, entropyCoef, temperature = 1) {
      const rowCount = batch.targetId.length;
      if (rowCount === 0) throw new Error('a batch needs at least one row');
      checkParams(params, parameters);
      const grid = [batch.trees, batch.length];
      const perRow = (data: Float32Array | Int32Array = new Float32Array(rowCount)): Value => ({
        shape: [rowCount],
        data,
      });
      const results = await session.run(
        new Map<string, Value>([
          ['ids', { shape: grid, data: batch.ids }],
          ['positions', { shape: grid, data: batch.positions }],
          ['subtree_end', { shape: grid, data: batch.subtreeEnd }],
          ['hidden_index', perRow(batch.hiddenIndex)],
          ['target_id', perRow(batch.targetId)],
          ['coef', perRow(coef)],
          ['entropy_coef', perRow(entropyCoef)],
          ['temperature', { shape: [1], data: Float32Array.of(temperature) }],
          ['lora_scale', { shape: [1], data: Float32Array.of(scale) }],
          ...params,
        ]),
      );
      const floats = (name: string): Float32Array => results.get(name)!.data as Float32Array;
      const rows: RowValues = { logprobs: floats('logprobs'), entropies: floats('entropies') };
      if (!options.gradients) return { rows };
      const gradients: TensorMap = new Map();
      for (const [name, shape] of parameters) {
        gradients.set(name, { shape: [...shape], data: floats(`grad ${name}`) });
      }
      return { rows, gradients };
    },
    release: () => session.release(),
  };
}
