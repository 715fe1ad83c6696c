/**
 * A training (or scoring) graph of one model folder: forward, and optionally backward, as one graph in an
 * executor's session.
 */
import type { Executor, Value } from './executor.ts';
import { createGraph } from './graph.ts';
import { checkParams } from './model-graph.ts';
import { onnxExecutor } from './onnx/session.ts';
import { buildTrainingGraph, FAST, type MemoryPlan } from './training-graph.ts';
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
  /** Default: fast, nothing recomputed, all rows at once. */
  memory?: MemoryPlan;
  /** What runs the graph. Default: onnxruntime. */
  executor?: Executor;
}

export interface PassOptions {
  /** `[rows]` each, default zeros. */
  coef?: Float32Array;
  entropyCoef?: Float32Array;
  /** Divides the logits, default 1. */
  temperature?: number;
}

export interface TrainingSession {
  /** Names and shapes of the parameters `run` expects, in the order of the gradients. */
  readonly parameters: ReadonlyMap<string, readonly number[]>;
  /**
   * One pass. The surrogate is S = Σ_rows coef[r] · logprob[r] + entropyCoef[r] · entropy[r]; `gradients`
   * is dS/dparameter (ascend it). `scale` is LoRA's alpha / r (0: the base model). At least one row. Same
   * inputs, same bytes.
   */
  run(
    batch: TreeBatch,
    params: TensorMap,
    scale: number,
    options?: PassOptions,
  ): Promise<{ rows: RowValues; gradients?: TensorMap }>;
  release(): Promise<void>;
}

/** Opens a session; reads the config and the weights' headers. UserError when they do not fit. */
export async function createTrainingSession(options: TrainingSessionOptions): Promise<TrainingSession> {
  const memory = options.memory ?? FAST;
  const {
    outputs,
    parameters: nodes,
    entries,
  } = buildTrainingGraph(createGraph(), {
    ...options,
    memory,
  });
  const parameters = new Map([...nodes].map(([name, node]) => [name, node.shape as readonly number[]]));
  const { threads, executor = onnxExecutor } = options;
  const session = await executor(outputs, { weights: entries, threads });
  return {
    parameters,
    async run(batch, params, scale, { coef, entropyCoef, temperature = 1 } = {}) {
      const rowCount = batch.targetId.length;
      if (rowCount === 0) throw new Error('a batch needs at least one row');
      checkParams(params, parameters);
      const grid = [batch.trees, batch.length];
      const feeds = new Map<string, Value>([
        ['ids', { shape: grid, data: batch.ids }],
        ['positions', { shape: grid, data: batch.positions }],
        ['subtree_end', { shape: grid, data: batch.subtreeEnd }],
        ['temperature', { shape: [1], data: Float32Array.of(temperature) }],
        ['lora_scale', { shape: [1], data: Float32Array.of(scale) }],
        ...params,
      ]);
      feedRows(feeds, batch, coef, entropyCoef, memory.rowChunks);
      const results = await session.run(feeds);
      const floats = (name: string): Float32Array => results.get(name)!.data as Float32Array;
      const joined = (name: string): Float32Array => {
        const out = new Float32Array(Math.max(rowCount, memory.rowChunks));
        for (let k = 0, at = 0; k < memory.rowChunks; k++) {
          const part = floats(`${name} ${k}`);
          out.set(part, at);
          at += part.length;
        }
        return out.subarray(0, rowCount);
      };
      const rows: RowValues = { logprobs: joined('logprobs'), entropies: joined('entropies') };
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

/** Rows cut into chunks; with fewer rows than chunks the first row is repeated with coefficients 0. */
function feedRows(
  feeds: Map<string, Value>,
  { hiddenIndex, targetId }: TreeBatch,
  coef: Float32Array | undefined,
  entropyCoef: Float32Array | undefined,
  chunks: number,
): void {
  const count = Math.max(targetId.length, chunks);
  const indices = (from: Int32Array): Int32Array => {
    if (from.length === count) return from;
    const out = new Int32Array(count).fill(from[0]!);
    out.set(from);
    return out;
  };
  const floats = (from: Float32Array | undefined): Float32Array => {
    if (from && from.length !== targetId.length) {
      throw new Error(`${from.length} coefficients for ${targetId.length} rows`);
    }
    if (from?.length === count) return from;
    const out = new Float32Array(count);
    if (from) out.set(from);
    return out;
  };
  const rows = {
    chunk: Int32Array.from({ length: count }, (_, i) => i),
    target_id: indices(targetId),
    coef: floats(coef),
    entropy_coef: floats(entropyCoef),
  };
  feeds.set('hidden_index', { shape: [count], data: indices(hiddenIndex) });
  for (let k = 0; k < chunks; k++) {
    const [start, end] = [Math.floor((k * count) / chunks), Math.floor(((k + 1) * count) / chunks)];
    for (const [name, data] of Object.entries(rows)) {
      feeds.set(`${name} ${k}`, { shape: [end - start], data: data.subarray(start, end) });
    }
  }
}
