/**
 * A tiny random Qwen3 with a LoRA adapter, and what PyTorch, transformers and PEFT compute with them
 * (scripts/reference-vectors.py).
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readSafetensors } from '../../src/engine/safetensors.ts';
import type { TensorMap } from '../../src/engine/types.ts';

/** Entry i of both is about predicting `ids[i + 1]` from `ids[0..i]`: `ids.length - 1` entries. */
interface RowReference {
  logprobs: number[];
  entropies: number[];
}

interface Reference {
  'temperature 1': RowReference;
  'temperature 0.7': RowReference;
  /** The eight most likely tokens, one after the other, after the first `promptLength` ids; no end token. */
  greedy: number[];
}

export interface Qwen3TinyVectors {
  entropyCoef: number;
  /** `coef[i]` weighs the log-probability of `ids[promptLength + i]`. */
  samples: { ids: number[]; promptLength: number; coef: number[]; base: Reference; adapter: Reference }[];
  /** With the adapter: Σ coef · logprob + entropyCoef · Σ entropy, over all rows of all samples. */
  objective: { 'temperature 1': number; 'temperature 0.7': number };
  /** torch.optim.AdamW *minimising* the objective at temperature 1, on the LoRA tensors alone. */
  adamw: {
    lr: number;
    weightDecay: number;
    beta1: number;
    beta2: number;
    eps: number;
    steps: number;
    objectiveBeforeStep: number[];
  };
}

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/**
 * `expected` holds `logits.base.<sample>` and `logits.adapter.<sample>` `[length, vocab]`;
 * `gradient.<1 or 0.7>.<tensor>` of the objective at that temperature, for every LoRA tensor and for four
 * weights of the base model (`model.embed_tokens.weight` is tied: both its uses count); and
 * `adamw.<LoRA tensor>`, the values after the three steps.
 */
export function loadQwen3Tiny(): {
  folder: string;
  adapterFolder: string;
  vectors: Qwen3TinyVectors;
  expected: TensorMap;
} {
  return {
    folder: path('qwen3-tiny'),
    adapterFolder: path('qwen3-tiny/adapter'),
    vectors: JSON.parse(readFileSync(path('qwen3-tiny/vectors.json'), 'utf8')),
    expected: readSafetensors(path('qwen3-tiny/expected.safetensors')).tensors,
  };
}
