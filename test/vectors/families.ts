/**
 * One tiny random model of each family, with a LoRA adapter on all seven projections, and what PyTorch,
 * transformers and PEFT compute with them (scripts/reference-vectors.py).
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readSafetensors } from '../../src/engine/safetensors.ts';
import type { TensorMap } from '../../src/engine/types.ts';

export const FAMILIES = [
  'qwen3',
  'qwen2.5',
  'qwen2.5-yarn',
  'llama3',
  'smollm',
  'llama-biases',
  'mistral',
] as const;

/** Entry i of `logprobs[s]` and `entropies[s]` is about predicting `ids[i + 1]` of sample s from `ids[0..i]`. */
interface Kind {
  logprobs: number[][];
  entropies: number[][];
}
interface AdapterKind extends Kind {
  /** Σ coef · logprob + entropyCoef · Σ entropy, over all rows of all samples. */
  'objective at temperature 0.7': number;
  /** At temperature 1, before each of AdamW's steps. */
  objectiveBeforeStep: number[];
}

export interface FamilyVectors {
  entropyCoef: number;
  /** `coef[i]` weighs the log-probability of `ids[promptLength + i]`. */
  samples: { ids: number[]; promptLength: number; coef: number[] }[];
  /** torch.optim.AdamW *minimising* the objective at temperature 1, on the LoRA tensors alone. */
  adamw: { lr: number; weightDecay: number; beta1: number; beta2: number; eps: number; steps: number };
  /** `rslora` is the same adapter with a scale of alpha / √r. */
  kinds: { base: Kind; lora: AdapterKind; rslora: AdapterKind };
}

/** A folder or file below test/vectors/families. */
export const familyPath = (name: string): string =>
  fileURLToPath(new URL(`families/${name}`, import.meta.url));

/**
 * `expected` holds `logits.<kind>` of the last sample `[length, vocab]`, `gradient.<kind>.<tensor>` of the
 * objective at temperature 0.7, and `adamw.<kind>.<tensor>`, the values after all steps.
 */
export function loadFamily(name: string): { folder: string; vectors: FamilyVectors; expected: TensorMap } {
  const folder = familyPath(name);
  return {
    folder,
    vectors: JSON.parse(readFileSync(`${folder}/vectors.json`, 'utf8')),
    expected: readSafetensors(`${folder}/expected.safetensors`).tensors,
  };
}
