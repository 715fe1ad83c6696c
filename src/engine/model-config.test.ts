import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { readDecoderConfig } from './model-config.ts';

const tiny = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));
const original = JSON.parse(readFileSync(join(tiny, 'config.json'), 'utf8'));
const scratch = mkdtempSync(join(tmpdir(), 'model-config-'));
cpSync(tiny, scratch, { recursive: true });
afterAll(() => rmSync(scratch, { recursive: true }));

/** The config with some fields changed; undefined takes one out. */
function read(changes: Record<string, unknown>, generation: unknown = { eos_token_id: 1 }) {
  writeFileSync(join(scratch, 'config.json'), JSON.stringify({ ...original, ...changes }));
  writeFileSync(join(scratch, 'generation_config.json'), JSON.stringify(generation));
  return readDecoderConfig(scratch);
}

test('reads the folder that transformers wrote', () => {
  expect(readDecoderConfig(tiny)).toEqual({
    architecture: 'qwen3',
    vocabSize: 96,
    hiddenSize: 32,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 8,
    intermediateSize: 48,
    rmsNormEps: 1e-6,
    rope: { theta: 10000, scaling: null },
    tieWordEmbeddings: true,
    qkNorm: true,
    qkvBias: false,
    outputBias: false,
    mlpBias: false,
    maxPositions: 64,
    eosTokenIds: [1],
  });
});

test('the older form: rope_theta at the top, rope_scaling null, torch_dtype', () => {
  const old = { rope_parameters: undefined, layer_types: undefined, rope_theta: 1e6, rope_scaling: null };
  expect(read({ ...old, torch_dtype: 'bfloat16' }).rope.theta).toBe(1e6);
  expect(read({ ...old, rope_scaling: { rope_type: 'default' } }).rope.theta).toBe(1e6);
  expect(read({ tie_word_embeddings: undefined }).tieWordEmbeddings).toBe(false);
});

test('end tokens: generation_config.json first, then config.json', () => {
  expect(read({ eos_token_id: 5 }, { eos_token_id: [7, 1] }).eosTokenIds).toEqual([7, 1]);
  expect(read({ eos_token_id: [5, 6] }, {}).eosTokenIds).toEqual([5, 6]);
  expect(() => read({ eos_token_id: null }, {})).toThrow(/no eos_token_id/);
  expect(() => read({}, { eos_token_id: 96 })).toThrow(/outside vocab_size 96/);
});

test('what would run wrongly is refused by name', () => {
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ architectures: ['Qwen3MoeForCausalLM'] }, /Qwen3MoeForCausalLM is not supported/],
    [{ architectures: ['LlamaForCausalLM'] }, /LlamaForCausalLM/],
    [{ architectures: undefined }, /none named/],
    [{ rope_scaling: { rope_type: 'yarn', factor: 4 } }, /rope_scaling/],
    [{ rope_scaling: { type: 'linear', factor: 4 } }, /rope_scaling/],
    [{ rope_scaling: { factor: 4 } }, /rope_scaling/],
    [{ rope_parameters: { rope_type: 'yarn', rope_theta: 10000 } }, /rope_parameters/],
    [{ rope_parameters: { rope_theta: 1e4, partial_rotary_factor: 0.5 } }, /partial_rotary_factor/],
    [{ rope_theta: 5 }, /rope_theta 5 and rope_parameters.rope_theta 10000 differ/],
    [{ rope_parameters: undefined }, /no rope_theta/],
    [{ use_sliding_window: true, sliding_window: 32 }, /sliding_window 32/],
    [{ layer_types: ['full_attention', 'sliding_attention'] }, /layer_types/],
    [{ quantization_config: { quant_method: 'awq' } }, /quantization_config/],
    [{ auto_map: { AutoModel: 'x.Y' } }, /auto_map/],
    [{ hidden_act: 'gelu' }, /hidden_act gelu/],
    [{ attention_dropout: 0.1 }, /attention_dropout/],
    [{ head_dim: undefined }, /head_dim/],
    [{ head_dim: 7 }, /head_dim 7 is odd/],
    [{ num_key_value_heads: 3 }, /not a multiple/],
    [{ hidden_size: '32' }, /hidden_size/],
  ];
  for (const [changes, message] of cases) {
    expect(() => read(changes)).toThrow(message);
    expect(() => read(changes)).toThrow(UserError);
  }
  expect(() => read({ hidden_act: 'gelu', bias: true })).toThrow(/gelu; bias/);
});

test('the wrong folder: one sentence', () => {
  expect(() => readDecoderConfig(join(tiny, 'adapter'))).toThrow(
    /config.json is missing\n.*This is an adapter/,
  );
  expect(() => readDecoderConfig(tmpdir())).toThrow(/config.json is missing/);
  expect(() => readDecoderConfig(join(tiny, 'nowhere'))).toThrow(/no such folder/);
  writeFileSync(join(scratch, 'config.json'), '{');
  expect(() => readDecoderConfig(scratch)).toThrow(/cannot be read as JSON/);
});
