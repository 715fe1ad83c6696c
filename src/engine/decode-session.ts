/** A compiled decode graph of one model folder: prefill of ragged prompts, then one token a step. */
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

export async function createDecodeSession(_options: DecodeSessionOptions): Promise<DecodeSession> {
  throw new Error('not built yet');
}
