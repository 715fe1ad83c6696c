import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readHeader } from '../../engine/safetensors.ts';
import { maxLoraRank, type TensorHeader, vllmProblems } from './vllm-problems.ts';

const config = { r: 4, lora_alpha: 8, target_modules: ['q_proj'], bias: 'none' };
const Q = 'base_model.model.model.layers.0.self_attn.q_proj';
/** An adapter of one pair, or of pairs named otherwise. */
function pair(path = Q, { r = 4, dtype = 'F32' } = {}): Map<string, TensorHeader> {
  return new Map([
    [`${path}.lora_A.weight`, { dtype, shape: [r, 32] }],
    [`${path}.lora_B.weight`, { dtype, shape: [16, r] }],
  ]);
}
const errors = (changes: object, tensors = pair()): string[] =>
  vllmProblems({ ...config, ...changes }, tensors).map(({ kind, message }) => `${kind}: ${message}`);

describe('what vLLM takes', () => {
  test('a plain adapter, also without the prefix, in half precision, on some modules only', () => {
    expect(errors({})).toEqual([]);
    expect(errors({ modules_to_save: [], use_dora: false, rank_pattern: {}, bias: null })).toEqual([]);
    expect(errors({ use_rslora: true, of_the_future: 1 })).toEqual([]);
    expect(errors({}, pair('model.layers.11.mlp.down_proj', { dtype: 'BF16' }))).toEqual([]);
  });

  test('what PEFT saved for a tiny Qwen3', () => {
    const folder = fileURLToPath(new URL('../../../test/vectors/qwen3-tiny/adapter', import.meta.url));
    const json: unknown = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'));
    const { entries } = readHeader(join(folder, 'adapter_model.safetensors'));
    expect(entries.length).toBe(28);
    expect(vllmProblems(json, new Map(entries.map((entry) => [entry.name, entry])))).toEqual([]);
  });

  test('ranks: a closed set of ceilings', () => {
    const ceilings = [1, 2, 8, 9, 16, 17, 24, 48, 64, 100, 256, 257, 320, 512, 513].map(maxLoraRank);
    expect(ceilings).toEqual([1, 8, 8, 16, 16, 32, 32, 64, 64, 128, 256, 320, 320, 512, null]);
    for (const r of [1, 5, 16]) expect(errors({ r }, pair(Q, { r }))).toEqual([]);
    expect(errors({ r: 24 }, pair(Q, { r: 24 }))).toEqual([
      "warning: rank 24 is above vLLM's default of 16: start it with --max-lora-rank 32",
    ]);
    expect(errors({ r: 600 }, pair(Q, { r: 600 }))).toEqual(["error: rank 600 is above vLLM's highest, 512"]);
  });
});

test('what vLLM refuses or silently leaves out is an error each', () => {
  const lone = pair();
  lone.delete(`${Q}.lora_B.weight`);
  const cases: [string, object, Map<string, TensorHeader>?][] = [
    ['missing or wrong: r', { r: undefined }],
    ['missing or wrong: lora_alpha', { lora_alpha: '8' }],
    ['missing or wrong: target_modules', { target_modules: null }],
    ['bias all', { bias: 'all' }],
    ['modules_to_save', { modules_to_save: ['lm_head'] }],
    ['use_dora', { use_dora: true }],
    ['rank_pattern', { rank_pattern: { q_proj: 8 } }],
    ['alpha_pattern', { alpha_pattern: { q_proj: 8 } }],
    ['no tensors', {}, new Map()],
    [
      'lora_magnitude_vector',
      {},
      new Map([...pair(), [`${Q}.lora_magnitude_vector`, { dtype: 'F32', shape: [16] }]]),
    ],
    [
      'lora_A.default.weight: not a LoRA weight',
      {},
      new Map([[`${Q}.lora_A.default.weight`, { dtype: 'F32', shape: [4, 32] }]]),
    ],
    ['lm_head is not one of', {}, pair('base_model.model.lm_head')],
    // A prefix that vLLM's model class has not: 200, and the base model answers.
    ['change nothing', {}, pair('base_model.model.model.language_model.layers.0.self_attn.q_proj')],
    ['change nothing', {}, pair('base_model.model.layers.0.self_attn.q_proj')],
    ['change nothing', {}, pair('base_model.model.model.layers.0.mlp.q_proj')],
    ['dtype F8_E4M3', {}, pair(Q, { dtype: 'F8_E4M3' })],
    ['is not of rank 4', {}, pair(Q, { r: 8 })],
    ['not two-dimensional', {}, new Map([...pair()].map(([n, h]) => [n, { ...h, shape: [4] }]))],
    ['partner', {}, lone],
  ];
  for (const [text, changes, tensors] of cases) {
    const found = errors(changes, tensors);
    expect(found[0], text).toMatch(/^error: /);
    expect(found.join('\n'), text).toContain(text);
  }
  expect(vllmProblems('text', pair())[0]).toMatchObject({ kind: 'error' });
});
