/**
 * A decoder-only transformer, from its config: RMSNorm before each half, grouped-query attention with rotary
 * positions, SwiGLU. What the families differ in: q and k normalised (Qwen3) or not, biases, the frequencies
 * of the positions, a projection of its own at the end. One description; the training, scoring and decode
 * graphs differ only in `attend` and in the rows they ask for.
 *
 * Tensors are flattened to `[n, features]`, n = b · t, wherever a matrix product follows, and a residual (or
 * else a bias) enters its product as the product's third operand: no separate addition.
 */
import { type Dim, dimProduct } from './dims.ts';
import {
  concat,
  constant,
  cos,
  type Graph,
  gather,
  gemm,
  type Node,
  plus,
  reshape,
  rmsNorm,
  rope,
  scalar,
  sin,
  slice,
  swiglu,
  times,
  toFloat,
  transpose,
} from './graph.ts';
import type { DecoderConfig } from './model-config.ts';
import { rotaryFrequencies } from './rotary.ts';

/** The tensors a decoder is built over. */
export interface DecoderWeights {
  /** A base weight by its Hugging Face name. */
  base(name: string, shape: readonly number[]): Node;
  /** A `[r, in]` and B `[out, r]` of a module such as `layers.0.self_attn.q_proj`, or null. */
  lora(module: string): { a: Node; b: Node } | null;
  /** LoRA's factor, `[1]`. */
  scale: Node;
}

export interface DecoderInput {
  /** Token ids, i32 `[b, t]`. */
  ids: Node;
  /** Rotary positions, i32 `[b, t]`. */
  positions: Node;
  /**
   * Attention of one layer: q `[b, heads, t, headDim]`, already scaled, and k, v `[b, kvHeads, t, headDim]`
   * → `[b, heads, t, headDim]`.
   */
  attend(layer: number, q: Node, k: Node, v: Node): Node;
  /** True: a row's values must not depend, bit for bit, on how many rows there are. */
  stable?: boolean;
  /** Which of the b · t positions to return, i32 `[r]`; the last layer's MLP sees only these. */
  rows: Node;
}

/** Floats of the widest vector register. */
const VECTOR = 16;

/** Cosine and sine tables `[b, t, headDim / 2]`, computed in the graph from the positions. */
function rotaryTables(positions: Node, { headDim, rope }: DecoderConfig): { cosine: Node; sine: Node } {
  const { graph } = positions;
  const { frequencies, magnitude } = rotaryFrequencies(headDim, rope);
  // Kernels compute sines a vector at a time and what is left at the end in another way: with whole vectors a
  // row's values do not depend on how many rows there are.
  const width = Math.ceil(frequencies.length / VECTOR) * VECTOR;
  const whole = Array.from({ length: width }, (_, i) => frequencies[i] ?? 0);
  const column = reshape(toFloat(positions), [...positions.shape, 1]);
  const angles = times(column, constant(graph, 'f32', [width], whole));
  const finished = (table: Node): Node => {
    const used = width === frequencies.length ? table : slice(table, 2, 0, frequencies.length);
    return magnitude === 1 ? used : times(used, scalar(graph, magnitude));
  };
  return { cosine: finished(cos(angles)), sine: finished(sin(angles)) };
}

/** The token embedding, which is also the output projection when the two are tied. `[vocab, hidden]` */
export function outputProjection(config: DecoderConfig, weights: DecoderWeights): Node {
  const name = config.tieWordEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight';
  return weights.base(name, [config.vocabSize, config.hiddenSize]);
}

/** A decoder in parts, for callers that walk the layers themselves. */
export interface Decoder {
  /** Token embeddings `[b · t, hidden]`. */
  embed(): Node;
  /** One layer: `[b · t, hidden]` → the same; the last one gives only the rows, `[r, hidden]`. */
  layer(layer: number, hidden: Node): Node;
  /** The final norm. */
  final(hidden: Node): Node;
}

export function createDecoder(config: DecoderConfig, weights: DecoderWeights, input: DecoderInput): Decoder {
  const { hiddenSize, heads, kvHeads, headDim, intermediateSize, rmsNormEps } = config;
  const { qkvBias, outputBias, mlpBias } = config;
  const [b, t] = input.ids.shape as [Dim, Dim];
  const graph: Graph = input.ids.graph;
  const { cosine, sine } = rotaryTables(input.positions, config);
  const queryScale = scalar(graph, 1 / Math.sqrt(headDim));

  /** x Wᵀ (+ bias) (+ residual) (+ scale · (x Aᵀ) Bᵀ) */
  const linear = (x: Node, module: string, size: [number, number], bias: boolean, residual?: Node): Node => {
    const w = weights.base(`model.${module}.weight`, size);
    const b = bias ? weights.base(`model.${module}.bias`, [size[0]]) : undefined;
    const product = gemm(x, w, { transB: true }, residual ?? b);
    const y = residual && b ? plus(product, b) : product;
    const lora = weights.lora(module);
    if (!lora) return y;
    const down = input.stable ? stableProduct(x, lora.a) : gemm(x, lora.a, { transB: true });
    return gemm(times(down, weights.scale), lora.b, { transB: true }, y);
  };
  const norm = (x: Node, name: string, size: number): Node =>
    rmsNorm(x, weights.base(`model.${name}.weight`, [size]), rmsNormEps);
  const split = (x: Node, count: number): Node => reshape(x, [b, t, count, headDim]);
  const headsFirst = (x: Node): Node => transpose(x, [0, 2, 1, 3]);

  const runLayer = (layer: number, before: Node): Node => {
    const at = `layers.${layer}`;
    const x = norm(before, `${at}.input_layernorm`, hiddenSize);
    const project = (name: string, count: number): Node =>
      split(linear(x, `${at}.self_attn.${name}_proj`, [count * headDim, hiddenSize], qkvBias), count);
    const rotated = (name: string, count: number): Node => {
      const y = project(name, count);
      const normed = config.qkNorm ? norm(y, `${at}.self_attn.${name}_norm`, headDim) : y;
      return rope(headsFirst(normed), cosine, sine);
    };
    const q = times(rotated('q', heads), queryScale);
    const context = input.attend(layer, q, rotated('k', kvHeads), headsFirst(project('v', kvHeads)));
    const joined = reshape(headsFirst(context), [flat(b, t), heads * headDim]);
    const mixed = linear(joined, `${at}.self_attn.o_proj`, [hiddenSize, heads * headDim], outputBias, before);
    const hidden = layer === config.layers - 1 ? gather(mixed, input.rows) : mixed;
    const z = norm(hidden, `${at}.post_attention_layernorm`, hiddenSize);
    const up = (name: string): Node =>
      linear(z, `${at}.mlp.${name}_proj`, [intermediateSize, hiddenSize], mlpBias);
    const inner = swiglu(up('gate'), up('up'));
    return linear(inner, `${at}.mlp.down_proj`, [hiddenSize, intermediateSize], mlpBias, hidden);
  };
  return {
    embed() {
      const embedding = weights.base('model.embed_tokens.weight', [config.vocabSize, hiddenSize]);
      return gather(embedding, reshape(input.ids, [flat(b, t)]));
    },
    layer: runLayer,
    final: (hidden) => norm(hidden, 'norm', hiddenSize),
  };
}

/** Hidden states after the final norm, at `rows`: `[r, hidden]`. */
export function decoderHidden(config: DecoderConfig, weights: DecoderWeights, input: DecoderInput): Node {
  const decoder = createDecoder(config, weights, input);
  let hidden = decoder.embed();
  for (let layer = 0; layer < config.layers; layer++) hidden = decoder.layer(layer, hidden);
  return decoder.final(hidden);
}

/**
 * x aᵀ whose sums do not depend on the number of rows. With several threads and fewer rows than columns the
 * kernel divides the columns among threads, in blocks of 16, and the width of a part decides how it cuts the
 * sum; parts of 16 columns are never divided. (Frozen weights are repacked and cut their sums one way.)
 */
function stableProduct(x: Node, a: Node): Node {
  const columns = a.shape[0] as number;
  const part = (start: number): Node =>
    gemm(x, slice(a, 0, start, Math.min(start + 16, columns)), { transB: true });
  if (columns <= 16) return gemm(x, a, { transB: true });
  return concat(
    Array.from({ length: Math.ceil(columns / 16) }, (_, i) => part(16 * i)),
    1,
  );
}

function flat(b: Dim, t: Dim): Dim {
  return dimProduct([b, t]);
}
