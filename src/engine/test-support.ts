/** For the engine's own tests: random tiny models, and plain samples as batches of chains. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stream } from '../base/random.ts';
import { readDecoderConfig } from './model-config.ts';
import { initAdapter } from './peft.ts';
import { writeSafetensors } from './safetensors.ts';
import type { Adapter, LoraSpec, TensorMap, TreeBatch } from './types.ts';

export interface TinyShape {
  vocab: number;
  hidden: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  ffn: number;
}
export const TINY: TinyShape = {
  vocab: 50,
  hidden: 16,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 6,
  ffn: 24,
};

export const ALL_MODULES = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];

/** A Qwen3 folder with random weights below the system's temporary folder. */
export function tinyModel(shape: TinyShape = TINY, dtype: 'F32' | 'F16' | 'BF16' = 'F32'): string {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-tiny-'));
  mkdirSync(folder, { recursive: true });
  const random = stream(1, 'tiny-model');
  const tensors: TensorMap = new Map();
  const add = (name: string, size: number[], std: number, mean = 0): void => {
    const data = new Float32Array(size.reduce((a, b) => a * b, 1));
    tensors.set(name, { shape: size, data: data.map(() => mean + std * random.normal()) });
  };
  const { hidden, heads, kvHeads, headDim, ffn } = shape;
  const matrix = (name: string, out: number, from: number): void =>
    add(name, [out, from], 1.2 / Math.sqrt(from));
  add('model.embed_tokens.weight', [shape.vocab, hidden], 0.25);
  for (let layer = 0; layer < shape.layers; layer++) {
    const at = `model.layers.${layer}`;
    add(`${at}.input_layernorm.weight`, [hidden], 0.2, 1);
    matrix(`${at}.self_attn.q_proj.weight`, heads * headDim, hidden);
    matrix(`${at}.self_attn.k_proj.weight`, kvHeads * headDim, hidden);
    matrix(`${at}.self_attn.v_proj.weight`, kvHeads * headDim, hidden);
    matrix(`${at}.self_attn.o_proj.weight`, hidden, heads * headDim);
    add(`${at}.self_attn.q_norm.weight`, [headDim], 0.2, 1);
    add(`${at}.self_attn.k_norm.weight`, [headDim], 0.2, 1);
    add(`${at}.post_attention_layernorm.weight`, [hidden], 0.2, 1);
    matrix(`${at}.mlp.gate_proj.weight`, ffn, hidden);
    matrix(`${at}.mlp.up_proj.weight`, ffn, hidden);
    matrix(`${at}.mlp.down_proj.weight`, hidden, ffn);
  }
  add('model.norm.weight', [hidden], 0.2, 1);
  writeSafetensors(join(folder, 'model.safetensors'), tensors, { dtype });
  const config = {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    vocab_size: shape.vocab,
    hidden_size: hidden,
    num_hidden_layers: shape.layers,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    intermediate_size: ffn,
    rms_norm_eps: 1e-6,
    max_position_embeddings: 4096,
    hidden_act: 'silu',
    rope_theta: 10000,
    tie_word_embeddings: true,
    attention_bias: false,
    eos_token_id: 1,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

/** An adapter whose B is not zero. */
export function randomAdapter(folder: string, spec: LoraSpec, seed = 1): Adapter {
  const random = stream(seed, 'adapter');
  const adapter = initAdapter(readDecoderConfig(folder), spec, random);
  for (const { data } of adapter.tensors.values()) {
    for (let i = 0; i < data.length; i++) data[i] = 0.15 * random.normal();
  }
  return adapter;
}

/** Samples as one chain a tree; every token from `promptLength` on (default 1) is a row. */
export function chainBatch(samples: { ids: number[]; promptLength?: number }[]): TreeBatch {
  const length = Math.max(...samples.map((s) => s.ids.length));
  const size = samples.length * length;
  const batch = {
    trees: samples.length,
    length,
    ids: new Int32Array(size),
    positions: new Int32Array(size),
    subtreeEnd: Int32Array.from({ length: size }, (_, i) => (i % length) + 1),
  };
  const hiddenIndex: number[] = [];
  const targetId: number[] = [];
  samples.forEach(({ ids, promptLength = 1 }, tree) => {
    ids.forEach((id, i) => {
      const at = tree * length + i;
      batch.ids[at] = id;
      batch.positions[at] = i;
      batch.subtreeEnd[at] = ids.length;
      if (i < promptLength) return;
      hiddenIndex.push(at - 1);
      targetId.push(id);
    });
  });
  return { ...batch, hiddenIndex: Int32Array.from(hiddenIndex), targetId: Int32Array.from(targetId) };
}

/** Largest |a − b|; infinite where the lengths differ or a difference is no number. */
export function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const gap = Math.abs(a[i]! - b[i]!);
    if (!(gap <= most)) most = Number.isNaN(gap) ? Infinity : gap;
  }
  return most;
}

/** The largest difference of a tensor relative to its largest wanted entry; infinite where the names differ. */
export function tensorGap(got: TensorMap, want: TensorMap): number {
  if (got.size !== want.size) return Infinity;
  let worst = 0;
  for (const [name, { data }] of want) {
    const scale = data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    worst = Math.max(worst, maxDifference(got.get(name)?.data ?? [], data) / Math.max(scale, 1e-12));
  }
  return worst;
}
