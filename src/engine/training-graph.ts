/** The training graph: token trees in, row values and the surrogate's gradients out. */
import { gradients } from './autodiff.ts';
import { rowValues } from './composites.ts';
import { decoderHidden, outputProjection } from './decoder.ts';
import {
  and,
  attention,
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
import { modelNodes } from './model-graph.ts';
import { readSafetensorsIndex } from './safetensors.ts';
import type { LoraSpec } from './types.ts';

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

export interface TrainingGraphOptions {
  folder: string;
  lora: LoraSpec | null;
  mode: 'lora' | 'full';
  gradients: boolean;
}

/**
 * Inputs: `ids`, `positions`, `subtree_end` i32 `[B, T]`; `hidden_index`, `target_id` i32 `[R]`; `coef`,
 * `entropy_coef` `[R]`; `temperature`, `lora_scale` `[1]`; the parameters by name. Outputs: `logprobs`,
 * `entropies` `[R]`, and `grad <parameter>` of the surrogate for each parameter. The graph has no state.
 */
export function buildTrainingGraph(graph: Graph, options: TrainingGraphOptions) {
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
