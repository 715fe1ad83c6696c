/** The training graph: token trees in, row values and the surrogate's gradients out. */
import { accumulate, pullBack } from './autodiff.ts';
import { rowValues } from './composites.ts';
import { createDecoder, outputProjection } from './decoder.ts';
import {
  after,
  and,
  attention,
  type Graph,
  gather,
  input,
  iota,
  less,
  type Node,
  not,
  over,
  plus,
  reachable,
  reshape,
  rowSurrogate,
  scalar,
  scatterAdd,
  times,
  where,
} from './graph.ts';
import { readDecoderConfig } from './model-config.ts';
import { checkAllUsed, modelNodes } from './model-graph.ts';
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

/**
 * What memory may cost time. `recompute`: the backward pass computes each layer again from its input (about a
 * third more work), so only layer inputs stay in memory (Chen et al. 2016, arXiv 1604.06174). `rowChunks` ≥ 1:
 * rows go through the vocabulary projection in so many parts, one after the other.
 */
export interface MemoryPlan {
  recompute: boolean;
  rowChunks: number;
}
export const FAST: MemoryPlan = { recompute: false, rowChunks: 1 };

export interface TrainingGraphOptions {
  folder: string;
  lora: LoraSpec | null;
  mode: 'lora' | 'full';
  gradients: boolean;
  memory: MemoryPlan;
}

/** A backward pass in parts: the gradients of parameters so far, and how to carry one further. */
interface Backward {
  of: Map<Node, Node>;
  /** The gradient of `from`, given that of `result`; adds to the parameters in between. */
  carry(result: Node, gradient: Node, from: Node): Node;
  /** The same where only parameters are left below. */
  finish(result: Node, gradient: Node): void;
}

function startBackward(parameters: readonly Node[]): Backward {
  const wanted = new Set(parameters);
  const of = new Map<Node, Node>();
  const pull = (result: Node, gradient: Node, from: Node[]): Node | undefined => {
    const between = reachable([result], from[0]).filter((node) => wanted.has(node));
    const parts = pullBack(result, gradient, [...between, ...from]);
    between.forEach((node, i) => {
      const [part, known] = [parts[i], of.get(node)];
      if (part) of.set(node, known ? accumulate(known, part) : part);
    });
    return parts[between.length];
  };
  return {
    of,
    carry(result, gradient, from) {
      const g = pull(result, gradient, [from]);
      if (!g) throw new Error('a part of the network does not depend on its input');
      return g;
    },
    finish(result, gradient) {
      pull(result, gradient, []);
    },
  };
}

/**
 * Row values, chunk by chunk, and (with `backward`) the surrogate's gradient of `cooled` `[R, hidden]`.
 * A chunk waits for the one before it, so that only one chunk's logits exist at a time.
 */
function buildHead(cooled: Node, projection: Node, chunks: number, backward: Backward | null) {
  const { graph } = cooled;
  const outputs = new Map<string, Node>();
  let gradient: Node | undefined;
  let previous: Node[] = [];
  for (let k = 0; k < chunks; k++) {
    const size = chunks === 1 ? cooled.shape[0]! : `R${k}`;
    const rows = (name: string, dtype: 'i32' | 'f32'): Node => input(graph, `${name} ${k}`, dtype, [size]);
    const target = rows('target_id', 'i32');
    const index = rows('chunk', 'i32');
    const part = chunks === 1 ? cooled : gather(cooled, index);
    const hidden = previous.length > 0 ? after(part, previous) : part;
    const { logprob, entropy } = rowValues(hidden, projection, target);
    outputs.set(`logprobs ${k}`, logprob).set(`entropies ${k}`, entropy);
    previous = [logprob, entropy];
    if (!backward) continue;
    const [coef, entropyCoef] = [rows('coef', 'f32'), rows('entropy_coef', 'f32')];
    const surrogate = rowSurrogate({ hidden, weight: projection, target, coef, entropyCoef });
    const g = backward.carry(surrogate, scalar(graph, 1), hidden);
    const placed = chunks === 1 ? g : scatterAdd(g, index, cooled.shape[0]!);
    gradient = gradient ? plus(gradient, placed) : placed;
    previous.push(g, ...backward.of.values());
  }
  return { outputs, gradient };
}

/**
 * Inputs: `ids`, `positions`, `subtree_end` i32 `[B, T]`; `hidden_index` i32 `[R]`; for each chunk k of the
 * rows `chunk k` (which of the rows; only with several), `target_id k` i32, `coef k`, `entropy_coef k`;
 * `temperature`, `lora_scale` `[1]`; the parameters by name. Outputs: `logprobs k`, `entropies k`, and
 * `grad <parameter>` of the surrogate for each parameter.
 */
export function buildTrainingGraph(graph: Graph, options: TrainingGraphOptions) {
  const config = readDecoderConfig(options.folder);
  const entries = readSafetensorsIndex(options.folder);
  const model = modelNodes(graph, config, options.lora, entries, options.mode === 'lora');
  const tokens = (name: string): Node => input(graph, name, 'i32', ['B', 'T']);
  const mask = treeMask(tokens('subtree_end'));
  const decoder = createDecoder(config, model.weights, {
    ids: tokens('ids'),
    positions: tokens('positions'),
    attend: (_, q, k, v) => attention(q, k, v, mask),
    rows: input(graph, 'hidden_index', 'i32', ['R']),
  });
  // dividing the hidden rows divides the logits, and costs less
  const heat = over(scalar(graph, 1), input(graph, 'temperature', 'f32', [1]));

  const states = [decoder.embed()];
  for (let layer = 0; layer < config.layers; layer++) states.push(decoder.layer(layer, states[layer]!));
  const last = states[config.layers]!;
  const cooled = times(decoder.final(last), heat);
  const projection = outputProjection(config, model.weights);
  checkAllUsed(config, model, entries);
  const parameters = options.mode === 'full' ? new Map([...model.base, ...model.lora]) : model.lora;
  const backward = options.gradients ? startBackward([...parameters.values()]) : null;
  const { outputs, gradient } = buildHead(cooled, projection, options.memory.rowChunks, backward);

  if (backward && gradient) {
    if (parameters.size === 0) throw new Error('gradients need parameters: give a LoraSpec or mode full');
    let g = backward.carry(cooled, gradient, last);
    let above = new Set(backward.of.values());
    for (let layer = config.layers - 1; layer >= 0; layer--) {
      const before = states[layer]!;
      // computed again, but only when everything above is done, parameter gradients included: they would
      // hold the layer's activations
      const start = options.memory.recompute ? after(before, [g, ...above]) : before;
      const known = new Set(backward.of.values());
      g = backward.carry(decoder.layer(layer, start), g, start);
      above = new Set([...backward.of.values()].filter((node) => !known.has(node)));
    }
    backward.finish(states[0]!, g);
    for (const [name, node] of parameters) outputs.set(`grad ${name}`, backward.of.get(node)!);
  }
  return { outputs, parameters, entries };
}
