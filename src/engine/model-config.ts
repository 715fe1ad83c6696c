/** A decoder's shape, from a Hugging Face `config.json`. What we cannot run is refused by name. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonFile } from '../base/read-json.ts';

export interface DecoderConfig {
  architecture: 'qwen3';
  vocabSize: number;
  hiddenSize: number;
  layers: number;
  /** Query heads; `kvHeads` divides it (grouped-query attention). */
  heads: number;
  kvHeads: number;
  /** Even. `heads × headDim` need not equal `hiddenSize`. */
  headDim: number;
  intermediateSize: number;
  rmsNormEps: number;
  ropeTheta: number;
  tieWordEmbeddings: boolean;
  /** RMSNorm over each head's q and k, before the rotary embedding. */
  qkNorm: boolean;
  attentionBias: boolean;
  maxPositions: number;
  /** At least one; a sampled one ends the output. */
  eosTokenIds: number[];
}

const count = z.number().int().positive();
const eosSchema = z.union([z.number().int().min(0), z.array(z.number().int().min(0)).min(1)]);
const ropeSchema = z.looseObject({
  rope_theta: z.number().positive().optional(),
  rope_type: z.string().optional(),
  type: z.string().optional(),
});

/** Fields we read. Those of Qwen3Config's defaults that a file may leave out are optional here. */
const qwen3Schema = z.looseObject({
  vocab_size: count,
  hidden_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count,
  intermediate_size: count,
  rms_norm_eps: z.number().positive(),
  max_position_embeddings: count,
  hidden_act: z.string(),
  rope_theta: z.number().positive().optional(),
  rope_parameters: ropeSchema.nullish(),
  rope_scaling: ropeSchema.nullish(),
  tie_word_embeddings: z.boolean().default(false),
  attention_bias: z.boolean().default(false),
  attention_dropout: z.number().default(0),
  use_sliding_window: z.boolean().default(false),
  layer_types: z.array(z.string()).nullish(),
  partial_rotary_factor: z.number().nullish(),
  quantization_config: z.unknown().optional(),
  auto_map: z.unknown().optional(),
  eos_token_id: eosSchema.nullish(),
});
type Qwen3Json = z.infer<typeof qwen3Schema>;

const architectureSchema = z.looseObject({ architectures: z.array(z.string()).default([]) });
const generationSchema = z.looseObject({ eos_token_id: eosSchema.nullish() });
const AS_PUBLISHED = 'Take the file as the model was published: copy or download it again.';

/** Everything in a Qwen3 config.json that would make our graph compute something else than the model. */
function unsupported(json: Qwen3Json): string[] {
  // rope_scaling without a type has a kind of its own in old files; rope_parameters without one is plain.
  const ropeTypes = [json.rope_parameters, json.rope_scaling].flatMap((r) => [r?.rope_type, r?.type]);
  const untyped = json.rope_scaling != null && !json.rope_scaling.rope_type && !json.rope_scaling.type;
  const partial = [json.partial_rotary_factor, json.rope_parameters?.partial_rotary_factor];
  const checks: [boolean, string][] = [
    [json.hidden_act !== 'silu', `hidden_act ${json.hidden_act}`],
    [
      untyped || ropeTypes.some((t) => t !== undefined && t !== 'default'),
      'rope_scaling / rope_parameters other than default',
    ],
    [partial.some((p) => p !== undefined && p !== null && p !== 1), 'partial_rotary_factor'],
    [json.use_sliding_window, 'use_sliding_window'],
    [json.layer_types?.some((t) => t !== 'full_attention') ?? false, 'layer_types other than full_attention'],
    [json.attention_dropout !== 0, 'attention_dropout'],
    [json.quantization_config != null, 'quantization_config'],
    [json.auto_map != null, "auto_map (the model's own code)"],
  ];
  return checks.filter(([bad]) => bad).map(([, name]) => name);
}

function eosIds(folder: string, json: Qwen3Json): number[] {
  const file = join(folder, 'generation_config.json');
  const generation = existsSync(file) ? readJsonFile(file, generationSchema, AS_PUBLISHED) : {};
  const ids = [generation.eos_token_id ?? json.eos_token_id ?? []].flat();
  if (ids.length === 0 || ids.some((id) => id >= json.vocab_size)) {
    const what =
      ids.length === 0 ? 'no eos_token_id' : `eos_token_id ${ids} is outside vocab_size ${json.vocab_size}`;
    throw new UserError(what, folder, 'Set eos_token_id in generation_config.json or config.json.');
  }
  return ids;
}

/**
 * Reads `config.json` (and, for the end tokens, `generation_config.json` where it is) of a Hugging Face
 * model folder. Qwen3ForCausalLM only; another architecture, or a field that changes the computation in a
 * way we do not build, is a UserError that names it.
 */
export function readDecoderConfig(folder: string): DecoderConfig {
  const file = join(folder, 'config.json');
  if (!existsSync(file)) {
    const isAdapter = existsSync(join(folder, 'adapter_config.json'));
    const hint = isAdapter
      ? 'This is an adapter; give the folder of its base model.'
      : 'Give the folder of a model in Hugging Face layout.';
    throw new UserError(existsSync(folder) ? 'config.json is missing' : 'no such folder', folder, hint);
  }
  const { architectures } = readJsonFile(file, architectureSchema, AS_PUBLISHED);
  if (architectures.length !== 1 || architectures[0] !== 'Qwen3ForCausalLM') {
    const what = `architecture ${architectures.join(', ') || '(none named)'} is not supported`;
    throw new UserError(what, file, 'Supported: Qwen3ForCausalLM.');
  }
  const json = readJsonFile(file, qwen3Schema, AS_PUBLISHED);
  const refused = unsupported(json);
  if (refused.length > 0) {
    throw new UserError(
      `not supported: ${refused.join('; ')}`,
      file,
      'Use a plain (unquantised) Qwen3 checkpoint.',
    );
  }
  const inParameters = json.rope_parameters?.rope_theta;
  const ropeTheta = inParameters ?? json.rope_theta;
  if (ropeTheta === undefined) throw new UserError('no rope_theta, and none in rope_parameters', file);
  if (json.rope_theta !== undefined && json.rope_theta !== ropeTheta) {
    throw new UserError(
      `rope_theta ${json.rope_theta} and rope_parameters.rope_theta ${ropeTheta} differ`,
      file,
    );
  }
  const [heads, kvHeads, headDim] = [json.num_attention_heads, json.num_key_value_heads, json.head_dim];
  if (heads % kvHeads !== 0) {
    throw new UserError(
      `num_attention_heads ${heads} is not a multiple of num_key_value_heads ${kvHeads}`,
      file,
    );
  }
  if (headDim % 2 !== 0) throw new UserError(`head_dim ${headDim} is odd`, file);
  return {
    architecture: 'qwen3',
    vocabSize: json.vocab_size,
    hiddenSize: json.hidden_size,
    layers: json.num_hidden_layers,
    heads,
    kvHeads,
    headDim,
    intermediateSize: json.intermediate_size,
    rmsNormEps: json.rms_norm_eps,
    ropeTheta,
    tieWordEmbeddings: json.tie_word_embeddings,
    qkNorm: true,
    attentionBias: json.attention_bias,
    maxPositions: json.max_position_embeddings,
    eosTokenIds: eosIds(folder, json),
  };
}
