/**
 * A compiled training (or scoring) graph of one model folder: forward, and optionally backward, as one
 * ONNX graph on onnxruntime.
 */
import { gradients } from './autodiff.ts';
import { rowValues } from './composites.ts';
import { decoderHidden, outputProjection } from './decoder.ts';
import {
  and,
  attention,
  createGraph,
  type Graph,
  input,
  iota,
  less,
  type Node,
  not,
  over,
  reshape,
  rowSurrogate,
  scalar,
  times,
  where,
} from './graph.ts';
import { readDecoderConfig } from './model-config.ts';
import { checkParams, modelNodes } from './model-graph.ts';
import { createSession, type Value } from './onnx/session.ts';
import { readSafetensorsIndex } from './safetensors.ts';
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

/** What a masked score gets: its exponential is 0 (or the smallest f32), and it never makes NaN. */
export const MASKED = -1e30;

/** The additive mask of token trees `[b, 1, t, t]`: i sees j when j ≤ i < subtreeEnd[j]. */
function treeMask(subtreeEnd: Node): Node {
  const { graph } = subtreeEnd;
  const [b, t] = subtreeEnd.shape;
  const positions = iota(graph, t!);
  const [i, j] = [reshape(positions, [1, 1, t!, 1]), reshape(positions, [1, 1, 1, t!])];
  const visible = and(not(less(i, j)), less(i, reshape(subtreeEnd, [b!, 1, 1, t!])));
  return where(visible, scalar(graph, 0), scalar(graph, MASKED));
}

function buildGraph(graph: Graph, options: TrainingSessionOptions) {
  const config = readDecoderConfig(options.folder);
  const entries = readSafetensorsIndex(options.folder);
  const model = modelNodes(graph, config, options.lora, entries, options.mode === 'lora');
  const tokens = (name: string): Node => input(graph, name, 'i32', ['B', 'T']);
  const rows = (name: string, dtype: 'i32' | 'f32'): Node => input(graph, name, dtype, ['R']);
  const mask = treeMask(tokens('subtree_end'));
  const hidden = decoderHidden(config, model.weights, {
    ids: tokens('ids'),
    positions: tokens('positions'),
    attend: (_, q, k, v) => attention(q, k, v, mask),
    rows: rows('hidden_index', 'i32'),
  });
  // dividing the hidden rows divides the logits, and costs less
  const cooled = times(hidden, over(scalar(graph, 1), input(graph, 'temperature', 'f32', [1])));
  const projection = outputProjection(config, model.weights);
  const target = rows('target_id', 'i32');
  const { logprob, entropy } = rowValues(cooled, projection, target);
  const outputs = new Map([
    ['logprobs', logprob],
    ['entropies', entropy],
  ]);
  const parameters = options.mode === 'full' ? new Map([...model.base, ...model.lora]) : model.lora;
  if (options.gradients) {
    if (parameters.size === 0) throw new Error('gradients need parameters: give a LoraSpec or mode full');
    const surrogate = rowSurrogate({
      hidden: cooled,
      weight: projection,
      target,
      coef: rows('coef', 'f32'),
      entropyCoef: rows('entropy_coef', 'f32'),
    });
    const names = [...parameters.keys()];
    gradients(surrogate, [...parameters.values()]).forEach((node, i) => {
      outputs.set(`grad ${names[i]}`, node);
    });
  }
  return { outputs, parameters, entries };
}

/** Compiles a session; reads the config and the weights' headers. UserError when they do not fit. */
export async function createTrainingSession(options: TrainingSessionOptions): Promise<TrainingSession> {
  const { outputs, parameters: nodes, entries } = buildGraph(createGraph(), options);
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
