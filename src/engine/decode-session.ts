/**
 * A compiled decode graph of one model folder: prefill of ragged prompts, then one token a step.
 *
 * Both are one graph, "t new tokens over c cached ones": prefill has c = 0, a step has t = 1. The cache goes
 * in as it lies in the caller's memory and only new columns come out.
 *
 * A row's results do not depend on the rest of its batch, bit for bit. The kernels sum in an order that
 * depends on sizes, so: prompts are padded to multiples of 64, a single row is run as two (matrix-vector
 * kernels sum differently), wide LoRA products run in parts, and the cached and the new columns are summed
 * apart.
 */
import { decoderHidden, outputProjection } from './decoder.ts';
import type { Value } from './executor.ts';
import {
  cachedAttention,
  createGraph,
  gemm,
  input,
  iota,
  less,
  logSoftmax,
  type Node,
  not,
  over,
  plus,
  reshape,
  scalar,
  times,
  where,
} from './graph.ts';
import { readDecoderConfig } from './model-config.ts';
import { checkAllUsed, checkParams, modelNodes } from './model-graph.ts';
import { createSession } from './onnx/session.ts';
import { loraScale } from './peft.ts';
import { readSafetensorsIndex } from './safetensors.ts';
import { MASKED } from './training-graph.ts';
import type { LoraSpec, TensorMap } from './types.ts';

export interface DecodeSessionOptions {
  /** Model folder in Hugging Face layout. */
  folder: string;
  /** Adapter shape that `params` will have; null: this session runs the base model only. */
  lora: LoraSpec | null;
  /** Threads of one operation, ≥ 1. */
  threads: number;
}

/** Result of `prefill` for n prompts, padded to `length` columns. */
export interface Prefill {
  /** log_softmax(logits / T) after each prompt's last token, nats `[n × vocab]`. */
  logprobs: Float32Array;
  /** Per layer `[n, kvHeads, length, headDim]`; columns at and past a prompt's own length are padding. */
  keys: Float32Array[];
  values: Float32Array[];
  /** Columns: the longest prompt, rounded up to a multiple of 64. */
  length: number;
}

export interface StepInput {
  /** One token a row `[b]`. */
  tokens: Int32Array;
  /** Cached tokens of each row `[b]`: also the rotary position of the new token. */
  positions: Int32Array;
  /** Columns of the cache; a multiple of 64 makes results independent of it, bit for bit. */
  capacity: number;
  /** Per layer `[b, kvHeads, capacity, headDim]`; columns ≥ position are ignored but must be finite. */
  keys: Float32Array[];
  values: Float32Array[];
  /** Divides the logits `[b]`, > 0. */
  temperature: Float32Array;
}

export interface StepOutput {
  /** `[b × vocab]`, nats. */
  logprobs: Float32Array;
  /** Per layer `[b, kvHeads, headDim]`: what the caller writes at column `positions[row]` of its cache. */
  newKeys: Float32Array[];
  newValues: Float32Array[];
}

export interface DecodeSession {
  readonly vocabSize: number;
  readonly layers: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** `params` null: the base model. The adapter's scale (alpha / r) is applied inside. */
  prefill(prompts: Int32Array[], params: TensorMap | null, temperature: Float32Array): Promise<Prefill>;
  step(input: StepInput, params: TensorMap | null): Promise<StepOutput>;
  release(): Promise<void>;
}

/** Prompts are padded to a multiple of this: the softmax kernel sums in blocks of 64. */
const BLOCK = 64;

function buildGraph(folder: string, spec: LoraSpec | null) {
  const graph = createGraph();
  const config = readDecoderConfig(folder);
  const entries = readSafetensorsIndex(folder);
  const model = modelNodes(graph, config, spec, entries, true);
  const [b, t, c] = ['B', 'T', 'C'];
  const ids = input(graph, 'ids', 'i32', [b, t]);
  const cached = input(graph, 'cached', 'i32', [b]);
  const additive = (visible: Node): Node => where(visible, scalar(graph, 0), scalar(graph, MASKED));
  const steps = iota(graph, t);
  const mask = additive(not(less(reshape(steps, [1, 1, t, 1]), reshape(steps, [1, 1, 1, t]))));
  const pastMask = additive(less(reshape(iota(graph, c), [1, 1, 1, c]), reshape(cached, [b, 1, 1, 1])));
  const outputs = new Map<string, Node>();
  const hidden = decoderHidden(config, model.weights, {
    ids,
    positions: plus(reshape(cached, [b, 1]), reshape(steps, [1, t])),
    attend(layer, q, k, v) {
      outputs.set(`key ${layer}`, k);
      outputs.set(`value ${layer}`, v);
      const shape = [b, config.kvHeads, c, config.headDim];
      const past = (name: string): Node => input(graph, `past ${name} ${layer}`, 'f32', shape);
      return cachedAttention({ q, k, v, mask, pastK: past('key'), pastV: past('value'), pastMask });
    },
    stable: true,
    rows: input(graph, 'last', 'i32', ['R']),
  });
  const cooled = times(hidden, over(scalar(graph, 1), input(graph, 'temperature', 'f32', ['R', 1])));
  outputs.set(
    'logprobs',
    logSoftmax(gemm(cooled, outputProjection(config, model.weights), { transB: true })),
  );
  checkAllUsed(config, model, entries);
  const shapes = new Map([...model.lora].map(([name, node]) => [name, node.shape as number[]]));
  return { config, entries, outputs, shapes };
}

/** Compiles a session; reads the config and the weights' headers. UserError when they do not fit. */
export async function createDecodeSession(options: DecodeSessionOptions): Promise<DecodeSession> {
  const { config, entries, outputs, shapes } = buildGraph(options.folder, options.lora);
  const { layers, kvHeads, headDim, vocabSize } = config;
  const session = await createSession(outputs, {
    weights: entries,
    threads: options.threads,
    prepack: true,
    arena: true,
  });
  const scale = options.lora ? loraScale(options.lora) : 0;
  // a product of the attention never has a thread to spare: several threads would divide its columns
  const fewest = Math.max(2, Math.ceil(options.threads / kvHeads));
  const zeros: TensorMap = new Map();
  for (const [name, shape] of shapes) {
    zeros.set(name, { shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)) });
  }

  /** t new tokens of each row over a cache of `capacity` columns; values of the rows `last`, at least two. */
  async function extend(
    rows: { ids: Int32Array; cached: Int32Array; last: Int32Array; temperature: Float32Array },
    cache: { capacity: number; keys: Float32Array[]; values: Float32Array[] },
    params: TensorMap | null,
  ): Promise<(name: string) => Float32Array> {
    if (params) checkParams(params, shapes);
    const b = rows.cached.length;
    const feeds = new Map<string, Value>([
      ['ids', { shape: [b, rows.ids.length / b], data: rows.ids }],
      ['cached', { shape: [b], data: rows.cached }],
      ['last', { shape: [rows.last.length], data: rows.last }],
      ['temperature', { shape: [rows.last.length, 1], data: rows.temperature }],
      ['lora_scale', { shape: [1], data: Float32Array.of(params ? scale : 0) }],
      ...(params ?? zeros),
    ]);
    const shape = [b, kvHeads, cache.capacity, headDim];
    for (let layer = 0; layer < layers; layer++) {
      feeds.set(`past key ${layer}`, { shape, data: cache.keys[layer]! });
      feeds.set(`past value ${layer}`, { shape, data: cache.values[layer]! });
    }
    const results = await session.run(feeds);
    return (name) => results.get(name)!.data as Float32Array;
  }
  const perLayer = (get: (layer: number) => Float32Array): Float32Array[] =>
    Array.from({ length: layers }, (_, layer) => get(layer));

  return {
    vocabSize,
    layers,
    kvHeads,
    headDim,
    async prefill(prompts, params, temperature) {
      const n = prompts.length;
      if (n === 0 || prompts.some((p) => p.length === 0)) throw new Error('prefill needs prompts of tokens');
      const length = Math.ceil(Math.max(...prompts.map((p) => p.length)) / BLOCK) * BLOCK;
      const ids = new Int32Array(n * length);
      const ends = prompts.map((prompt, i) => i * length + prompt.length - 1);
      prompts.forEach((prompt, i) => {
        ids.set(prompt, i * length);
      });
      // one prompt has many tokens, but only one row at its end: that row is taken twice
      const last = Int32Array.from(n === 1 ? [...ends, ...ends] : ends);
      const none = perLayer(() => new Float32Array(0));
      const get = await extend(
        { ids, cached: new Int32Array(n), last, temperature: padded(temperature, last.length, 1) },
        { capacity: 0, keys: none, values: none },
        params,
      );
      const size = n * kvHeads * length * headDim;
      return {
        logprobs: get('logprobs').subarray(0, n * vocabSize),
        keys: perLayer((layer) => get(`key ${layer}`).subarray(0, size)),
        values: perLayer((layer) => get(`value ${layer}`).subarray(0, size)),
        length,
      };
    },
    async step({ tokens, positions, capacity, keys, values, temperature }, params) {
      const n = tokens.length;
      const b = Math.max(n, fewest);
      const full = (data: Float32Array): Float32Array => padded(data, b * kvHeads * capacity * headDim, 0);
      const get = await extend(
        {
          ids: padded(tokens, b, 0),
          cached: padded(positions, b, 0),
          last: Int32Array.from({ length: b }, (_, i) => i),
          temperature: padded(temperature, b, 1),
        },
        { capacity, keys: keys.map(full), values: values.map(full) },
        params,
      );
      const size = n * kvHeads * headDim;
      return {
        logprobs: get('logprobs').subarray(0, n * vocabSize),
        newKeys: perLayer((layer) => get(`key ${layer}`).subarray(0, size)),
        newValues: perLayer((layer) => get(`value ${layer}`).subarray(0, size)),
      };
    },
    release: () => session.release(),
  };
}

/** `data` itself when it has `length` elements, or a copy filled up with `fill`. */
function padded<T extends Float32Array | Int32Array>(data: T, length: number, fill: number): T {
  if (data.length === length) return data;
  if (data.length > length) throw new Error(`${data.length} elements where ${length} were expected`);
  const out = (data instanceof Int32Array ? new Int32Array(length) : new Float32Array(length)) as T;
  out.set(data);
  out.fill(fill, data.length);
  return out;
}
