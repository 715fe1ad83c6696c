/** What the server asks of the engine: one decode session per model folder and LoRA shape. */
import type { TensorMap } from '../engine/types.ts';

export interface PrefillResult {
  /** log_softmax(logits / T) at each prompt's last token `[n, vocab]`, nats. */
  logprobs: Float32Array;
  /** Per layer `[n, kvHeads, length, headDim]`; the columns past a prompt's own length are padding. */
  keys: Float32Array[];
  values: Float32Array[];
  /** Columns of `keys` and `values`: at least the longest prompt. */
  length: number;
}

export interface StepInput {
  /** The token to append to each row `[b]`. */
  tokens: Int32Array;
  /** Tokens already cached in each row `[b]`; the new one takes this position. */
  positions: Int32Array;
  capacity: number;
  /** Per layer `[b, kvHeads, capacity, headDim]`. */
  keys: Float32Array[];
  values: Float32Array[];
  temperature: Float32Array;
}

export interface StepResult {
  /** `[b, vocab]`, nats. */
  logprobs: Float32Array;
  /** Per layer `[b, kvHeads, headDim]`: the new column, which the caller writes into its cache. */
  newKeys: Float32Array[];
  newValues: Float32Array[];
}

export interface DecodeSession {
  prefill(prompts: Int32Array[], params: TensorMap | null, temperature: Float32Array): Promise<PrefillResult>;
  step(input: StepInput, params: TensorMap | null): Promise<StepResult>;
}
