import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { FAMILIES, familyPath } from '../../test/vectors/families.ts';
import { UserError } from '../base/errors.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { readDecoderConfig } from './model-config.ts';

const tiny = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));
const scratch = temporaryFolder();

type Json = Record<string, unknown>;
const configOf = (folder: string): Json => JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
const original = configOf(tiny);

/** The config with some fields changed; undefined takes one out. */
function readOf(json: Json, changes: Json, generation: Json = { eos_token_id: 1 }) {
  writeFileSync(join(scratch, 'config.json'), JSON.stringify({ ...json, ...changes }));
  writeFileSync(join(scratch, 'generation_config.json'), JSON.stringify(generation));
  return readDecoderConfig(scratch);
}
const read = (changes: Json, generation?: Json) => readOf(original, changes, generation);

describe('Qwen3 as transformers 5 writes it', () => {
  test('every field', () => {
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
    expect(read({ attention_bias: true })).toMatchObject({ qkvBias: true, outputBias: true, mlpBias: false });
  });

  test('the older form: rope_theta at the top, rope_scaling null, torch_dtype', () => {
    const old = { rope_parameters: undefined, layer_types: undefined, rope_theta: 1e6, rope_scaling: null };
    expect(read({ ...old, torch_dtype: 'bfloat16' }).rope).toEqual({ theta: 1e6, scaling: null });
    expect(read({ ...old, rope_scaling: { rope_type: 'default' } }).rope.theta).toBe(1e6);
    const linear = { kind: 'linear', factor: 2 };
    expect(read({ ...old, rope_scaling: { type: 'linear', factor: 2 } }).rope.scaling).toEqual(linear);
    expect(read({ tie_word_embeddings: undefined }).tieWordEmbeddings).toBe(false);
  });

  test('end tokens: generation_config.json first, then config.json, each once', () => {
    expect(read({ eos_token_id: 5 }, { eos_token_id: [7, 1, 7] }).eosTokenIds).toEqual([7, 1]);
    expect(read({ eos_token_id: [5, 6] }, {}).eosTokenIds).toEqual([5, 6]);
    expect(() => read({ eos_token_id: null }, {})).toThrow(/no eos_token_id/);
    expect(() => read({}, { eos_token_id: 96 })).toThrow(/outside vocab_size 96/);
  });
});

test('what differs between the families', () => {
  const of = (name: (typeof FAMILIES)[number]) => readDecoderConfig(familyPath(name));
  expect(of('qwen2.5')).toMatchObject({
    architecture: 'qwen2',
    headDim: 4,
    qkNorm: false,
    qkvBias: true,
    outputBias: false,
    tieWordEmbeddings: false,
  });
  expect(of('qwen2.5-yarn').rope.scaling).toEqual({
    kind: 'yarn',
    factor: 4,
    originalPositions: 16,
    betaFast: 32,
    betaSlow: 1,
  });
  expect(of('llama3')).toMatchObject({
    architecture: 'llama',
    eosTokenIds: [1, 4, 5],
    rope: { scaling: { kind: 'llama3', factor: 8, originalPositions: 32 } },
  });
  expect(of('smollm')).toMatchObject({ heads: 3, kvHeads: 1, headDim: 6, rope: { theta: 1e5 } });
  expect(of('llama-biases')).toMatchObject({ qkvBias: true, outputBias: true, mlpBias: true });
  expect(of('mistral')).toMatchObject({ architecture: 'mistral', headDim: 6, qkvBias: false });
  // Llama 2's files are older than these fields
  const llama = configOf(familyPath('smollm'));
  const llama2 = { rope_theta: undefined, num_key_value_heads: undefined, attention_bias: undefined };
  expect(readOf(llama, llama2)).toMatchObject({ kvHeads: 3, rope: { theta: 10_000 } });
});

/** Fields that change the computation in every family, each with a value that no family here computes. */
const CHANGES: [Json, RegExp][] = [
  [{ architectures: ['Gemma2ForCausalLM'] }, /Gemma2ForCausalLM is not supported/],
  [{ architectures: ['toString'] }, /toString is not supported/],
  [{ architectures: undefined }, /none named/],
  [{ architectures: ['LlamaForCausalLM', 'MistralForCausalLM'] }, /not supported/],
  [{ model_type: 'phi3' }, /model_type phi3/],
  [{ hidden_act: 'gelu' }, /hidden_act gelu/],
  [{ attention_dropout: 0.1 }, /attention_dropout 0.1/],
  [{ partial_rotary_factor: 0.5 }, /partial_rotary_factor 0.5/],
  [{ rope_interleaved: true }, /rope_interleaved true/],
  [{ bias: true }, /bias true/],
  [{ original_max_position_embeddings: 16 }, /original_max_position_embeddings 16/],
  [{ no_rope_layers: [1, 0] }, /no_rope_layers/],
  [{ qk_norm: true }, /qk_norm/],
  [{ use_qk_norm: true }, /use_qk_norm/],
  [{ clip_qkv: 8 }, /clip_qkv/],
  [{ attention_multiplier: 0.1 }, /attention_multiplier/],
  [{ query_pre_attn_scalar: 256 }, /query_pre_attn_scalar/],
  [{ attn_logit_softcapping: 50 }, /attn_logit_softcapping/],
  [{ final_logit_softcapping: 30 }, /final_logit_softcapping/],
  [{ logit_scale: 0.0625 }, /logit_scale/],
  [{ logits_scaling: 8 }, /logits_scaling/],
  [{ embedding_multiplier: 12 }, /embedding_multiplier/],
  [{ residual_multiplier: 0.2 }, /residual_multiplier/],
  [{ attention_chunk_size: 32 }, /attention_chunk_size/],
  [{ dual_chunk_attention_config: { chunk_size: 32 } }, /dual_chunk_attention_config/],
  [{ is_causal: false }, /is_causal false/],
  [{ qkv_bias: true }, /qkv_bias true/],
  [{ llama_4_scaling: { original_max_position_embeddings: 8, beta: 0.1 } }, /llama_4_scaling/],
  [{ ada_rms_norm_t_cond: true }, /ada_rms_norm_t_cond true/],
  [{ use_bidirectional_attention: true }, /use_bidirectional_attention/],
  [{ is_encoder_decoder: true }, /is_encoder_decoder/],
  [{ add_cross_attention: true }, /add_cross_attention/],
  [{ quantization_config: { quant_method: 'awq' } }, /quantization_config/],
  [{ compression_config: {} }, /compression_config/],
  [{ auto_map: { AutoModel: 'x.Y' } }, /auto_map/],
  [{ layer_types: ['full_attention', 'sliding_attention'] }, /layer_types/],
  [{ rope_scaling: { rope_type: 'dynamic', factor: 4 } }, /rope_scaling of type dynamic/],
  [{ rope_scaling: { type: 'longrope', factor: 4 } }, /rope_scaling of type longrope/],
  [{ rope_scaling: { factor: 4 } }, /rope_scaling without a type/],
  [{ rope_parameters: { rope_type: 'proportional', rope_theta: 1e4 } }, /rope_parameters of type/],
  [{ rope_parameters: { rope_theta: 1e4, partial_rotary_factor: 0.5 } }, /partial_rotary_factor/],
  [{ rope_theta: 5, rope_parameters: { rope_theta: 6 }, rope_scaling: null }, /rope_theta 5 .* differ/],
  [
    { rope_parameters: { rope_theta: 5 }, rope_scaling: { type: 'linear', factor: 2 }, rope_theta: null },
    /rope_parameters and rope_scaling differ/,
  ],
  [{ head_dim: 7 }, /head_dim 7 is odd/],
  [{ num_key_value_heads: 5 }, /not a multiple/],
  [{ hidden_size: '32' }, /hidden_size/],
  [{ vocab_size: undefined }, /vocab_size/],
];

/** The same for single families. */
const OWN: Record<(typeof FAMILIES)[number], [Json, RegExp][]> = {
  qwen3: [
    [{ head_dim: undefined }, /no head_dim/],
    [{ num_key_value_heads: null }, /no num_key_value_heads/],
    [{ rope_parameters: undefined }, /no rope_theta/],
    [{ mlp_bias: true }, /mlp_bias true/],
    [{ use_sliding_window: true, sliding_window: 32 }, /sliding_window 32/],
    [{ architectures: ['Qwen3MoeForCausalLM'] }, /Qwen3MoeForCausalLM/],
  ],
  'qwen2.5': [
    [{ attention_bias: true }, /attention_bias true/],
    [{ mlp_bias: true }, /mlp_bias true/],
    [{ use_sliding_window: true }, /sliding_window 32/],
    [{ rope_theta: undefined }, /no rope_theta/],
    [{ architectures: ['Qwen2_5_VLForConditionalGeneration'] }, /Qwen2_5_VL/],
  ],
  'qwen2.5-yarn': [
    [
      {
        rope_scaling: {
          type: 'yarn',
          factor: 4,
          original_max_position_embeddings: 16,
          attention_factor: 1,
        },
      },
      /rope_scaling.attention_factor/,
    ],
  ],
  llama3: [
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, /low_freq_factor/],
    [{ sliding_window: 32 }, /sliding_window 32/],
  ],
  smollm: [
    [{ num_attention_heads: 4, num_key_value_heads: 2 }, /hidden_size 18 is not a multiple/],
    [{ architectures: ['SmolLM3ForCausalLM'] }, /SmolLM3ForCausalLM/],
  ],
  'llama-biases': [[{ model_type: 'mistral' }, /model_type mistral with an architecture of llama/]],
  mistral: [
    [{ sliding_window: 32 }, /sliding_window 32, smaller than max_position_embeddings/],
    [{ sliding_window: undefined, max_position_embeddings: 32768 }, /sliding_window 4096/],
    [{ attention_bias: true }, /attention_bias true/],
    [{ mlp_bias: true }, /mlp_bias true/],
    [{ num_key_value_heads: undefined }, /no num_key_value_heads/],
  ],
};

describe.each(FAMILIES)('%s', (name) => {
  const json = configOf(familyPath(name));

  test('what would run wrongly is refused by name', () => {
    for (const [changes, message] of [...CHANGES, ...OWN[name]]) {
      const reading = () => readOf(json, changes);
      expect(reading, JSON.stringify(changes)).toThrow(message);
      expect(reading).toThrow(UserError);
    }
    expect(() => readOf(json, { hidden_act: 'gelu', bias: true })).toThrow(/hidden_act gelu; bias true/);
  });

  test('what changes nothing is accepted', () => {
    const plain = readOf(json, {});
    const harmless: Json = {
      use_cache: false,
      torch_dtype: 'float16',
      dtype: 'float16',
      transformers_version: '4.0.0',
      initializer_range: 1,
      pretraining_tp: 4,
      _name_or_path: 'x',
      max_window_layers: 1,
      unknown_field: { a: 1 },
      bos_token_id: null,
      pad_token_id: 3,
      'transformers.js_config': {},
      layer_types: ['full_attention', 'full_attention'],
      quantization_config: null,
      attention_dropout: 0.0,
      hidden_act: 'swish',
      logit_scale: 1,
      is_causal: true,
      // a window as long as the context hides nothing
      sliding_window: 64,
    };
    for (const [field, value] of Object.entries(harmless))
      expect(readOf(json, { [field]: value }), field).toEqual(plain);
  });
});

test('the wrong folder: one sentence', () => {
  cpSync(tiny, scratch, { recursive: true });
  expect(() => readDecoderConfig(join(tiny, 'adapter'))).toThrow(
    /config.json is missing\n.*This is an adapter/,
  );
  expect(() => readDecoderConfig(tmpdir())).toThrow(/config.json is missing/);
  expect(() => readDecoderConfig(join(tiny, 'nowhere'))).toThrow(/no such folder/);
  writeFileSync(join(scratch, 'config.json'), '{');
  expect(() => readDecoderConfig(scratch)).toThrow(/cannot be read as JSON/);
});
