/** A decoder's shape, from a Hugging Face `config.json`. What we cannot run is refused by name. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonFile } from '../base/read-json.ts';
import { parseRope, type Rope } from './rotary.ts';

export interface DecoderConfig {
  architecture: 'qwen3' | 'qwen2' | 'llama' | 'mistral';
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
  rope: Rope;
  tieWordEmbeddings: boolean;
  /** RMSNorm over each head's q and k, before the rotary embedding. */
  qkNorm: boolean;
  /** Biases of q, k and v; of o; of gate, up and down. */
  qkvBias: boolean;
  outputBias: boolean;
  mlpBias: boolean;
  maxPositions: number;
  /** At least one; a sampled one ends the output. */
  eosTokenIds: number[];
}

const count = z.number().int().positive();
const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);
const eosSchema = z.union([z.number().int().min(0), z.array(z.number().int().min(0)).min(1)]);

/** Fields we read; the families leave out different ones. */
const configSchema = z.looseObject({
  model_type: z.string().optional(),
  vocab_size: count,
  hidden_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  intermediate_size: count,
  rms_norm_eps: z.number().positive(),
  max_position_embeddings: count,
  hidden_act: z.string(),
  rope_theta: z.number().positive().nullish(),
  rope_parameters: z.unknown().optional(),
  rope_scaling: z.unknown().optional(),
  tie_word_embeddings: flag,
  attention_bias: flag,
  mlp_bias: flag,
  use_sliding_window: flag,
  sliding_window: count.nullish(),
  layer_types: z.array(z.string()).nullish(),
  eos_token_id: eosSchema.nullish(),
});
type ConfigJson = z.infer<typeof configSchema>;

/** What a family is, beyond its config.json; absent fields have the defaults of its class in transformers. */
interface Family {
  architecture: DecoderConfig['architecture'];
  qkNorm: boolean;
  biases(json: ConfigJson): { qkv: boolean; output: boolean; mlp: boolean };
  /** Where there is no `head_dim`, it is hidden_size / num_attention_heads. */
  headDimRequired: boolean;
  /** Where there is no `num_key_value_heads`, every head has its own keys. */
  kvHeadsRequired: boolean;
  /** θ of files that are older than the field. */
  defaultTheta: number | null;
  /** Attention window in positions; null: none. */
  window(json: ConfigJson): number | null;
  /** Fields of `NEUTRAL` that this family has a use for. */
  reads: string[];
}

/** The window that is given (null: none), or the classes' default where nothing is said. */
const givenWindow = ({ sliding_window: w }: ConfigJson): number | null => (w === undefined ? 4096 : w);
const qwenWindow = (json: ConfigJson): number | null => (json.use_sliding_window ? givenWindow(json) : null);
const attentionBias = ({ attention_bias: b }: ConfigJson) => ({ qkv: b, output: b, mlp: false });

const FAMILIES: Record<string, Family> = {
  Qwen3ForCausalLM: {
    architecture: 'qwen3',
    qkNorm: true,
    biases: attentionBias,
    headDimRequired: true,
    kvHeadsRequired: true,
    defaultTheta: null,
    window: qwenWindow,
    reads: ['attention_bias'],
  },
  Qwen2ForCausalLM: {
    architecture: 'qwen2',
    qkNorm: false,
    biases: () => ({ qkv: true, output: false, mlp: false }),
    headDimRequired: false,
    kvHeadsRequired: true,
    defaultTheta: null,
    window: qwenWindow,
    reads: [],
  },
  // Llama 1 to 3, SmolLM, TinyLlama and many others
  LlamaForCausalLM: {
    architecture: 'llama',
    qkNorm: false,
    biases: (json) => ({ ...attentionBias(json), mlp: json.mlp_bias }),
    headDimRequired: false,
    kvHeadsRequired: false,
    defaultTheta: 10_000,
    window: (json) => json.sliding_window ?? null,
    reads: ['attention_bias', 'mlp_bias'],
  },
  MistralForCausalLM: {
    architecture: 'mistral',
    qkNorm: false,
    biases: () => ({ qkv: false, output: false, mlp: false }),
    headDimRequired: false,
    kvHeadsRequired: true,
    defaultTheta: null,
    window: givenWindow,
    reads: [],
  },
};

/**
 * Fields of this and other architectures that change what a layer computes, with the values under which it
 * computes what we build; null and absent are always such. Fields that stand in neither place are taken to be
 * harmless: the weights, all of which must be used, tell if one was not (`model-graph.ts`).
 */
const NEUTRAL: Record<string, readonly unknown[]> = {
  hidden_act: ['silu', 'swish'],
  attention_bias: [false],
  mlp_bias: [false],
  bias: [false],
  // vLLM's, not transformers'
  qkv_bias: [false],
  attention_dropout: [0],
  partial_rotary_factor: [1],
  rope_interleaved: [false],
  // takes precedence over the one within rope_scaling, for some programs
  original_max_position_embeddings: [],
  no_rope_layers: [],
  qk_norm: [false],
  use_qk_norm: [false],
  clip_qkv: [],
  attention_multiplier: [],
  query_pre_attn_scalar: [],
  attn_logit_softcapping: [],
  final_logit_softcapping: [],
  logit_scale: [1],
  logits_scaling: [1],
  embedding_multiplier: [1],
  residual_multiplier: [1],
  attention_chunk_size: [],
  // vLLM attends in chunks, or scales queries and norms by more than the weights; transformers does not
  dual_chunk_attention_config: [],
  llama_4_scaling: [],
  ada_rms_norm_t_cond: [false],
  is_causal: [true],
  use_bidirectional_attention: [false],
  is_encoder_decoder: [false],
  add_cross_attention: [false],
  quantization_config: [],
  compression_config: [],
  // the model's own code
  auto_map: [],
};

const architectureSchema = z.looseObject({ architectures: z.array(z.string()).nullish() });
const generationSchema = z.looseObject({ eos_token_id: eosSchema.nullish() });
const AS_PUBLISHED = 'Take the file as the model was published: copy or download it again.';
const brief = (value: unknown): string => (typeof value === 'object' ? '' : ` ${String(value)}`);

/** Everything in a config.json that would make our graph compute something else than the model. */
function unsupported(json: ConfigJson, family: Family): string[] {
  const problems: string[] = [];
  if (json.model_type !== undefined && json.model_type !== family.architecture)
    problems.push(`model_type ${json.model_type} with an architecture of ${family.architecture}`);
  for (const [name, neutral] of Object.entries(NEUTRAL)) {
    const value = json[name];
    if (value === undefined || value === null || family.reads.includes(name)) continue;
    if (!neutral.includes(value)) problems.push(name + brief(value));
  }
  const window = family.window(json);
  if (window !== null && window < json.max_position_embeddings)
    problems.push(
      `sliding_window ${window}, smaller than max_position_embeddings (with this set to ${window} it hides nothing)`,
    );
  if (json.layer_types?.some((type) => type !== 'full_attention'))
    problems.push('layer_types other than full_attention');
  return problems;
}

/** θ and scaling from all the places where they may stand, which must agree. `fail` does not return. */
function ropeOf(json: ConfigJson, family: Family, fail: (what: string) => never): Rope {
  const parts = (['rope_parameters', 'rope_scaling'] as const)
    .filter((field) => json[field] !== null && json[field] !== undefined)
    .map((field) => ({ field, ...parseRope(json[field], field) }));
  const given = parts.map((part) => ('refused' in part ? fail(`not supported: ${part.refused}`) : part));
  const [first, second] = given;
  if (first && second && JSON.stringify(first.scaling) !== JSON.stringify(second.scaling))
    fail('rope_parameters and rope_scaling differ');
  const thetas = [
    ...given.map(({ field, theta }) => ({ from: `${field}.rope_theta`, theta })),
    { from: 'rope_theta', theta: json.rope_theta ?? null },
  ].filter((x): x is { from: string; theta: number } => x.theta !== null);
  const theta = thetas[0]?.theta ?? family.defaultTheta;
  if (theta === null) return fail('no rope_theta, and none in rope_parameters');
  const other = thetas.find((x) => x.theta !== theta);
  if (other) fail(`${other.from} ${other.theta} and ${thetas[0]!.from} ${theta} differ`);
  return { theta, scaling: first?.scaling ?? null };
}

/** Heads, and the width of one. `fail` does not return. */
function headsOf(json: ConfigJson, family: Family, fail: (what: string) => never) {
  const { num_attention_heads: heads, hidden_size: hidden } = json;
  if (family.kvHeadsRequired && json.num_key_value_heads == null) fail('no num_key_value_heads');
  if (family.headDimRequired && json.head_dim == null) fail('no head_dim');
  const kvHeads = json.num_key_value_heads ?? heads;
  const headDim = json.head_dim ?? hidden / heads;
  if (heads % kvHeads !== 0)
    fail(`num_attention_heads ${heads} is not a multiple of num_key_value_heads ${kvHeads}`);
  if (!Number.isInteger(headDim))
    fail(`hidden_size ${hidden} is not a multiple of num_attention_heads ${heads}, and there is no head_dim`);
  if (headDim % 2 !== 0) fail(`head_dim ${headDim} is odd`);
  return { heads, kvHeads, headDim };
}

function eosIds(folder: string, json: ConfigJson): number[] {
  const file = join(folder, 'generation_config.json');
  const generation = existsSync(file) ? readJsonFile(file, generationSchema, AS_PUBLISHED) : {};
  const ids = [...new Set([generation.eos_token_id ?? json.eos_token_id ?? []].flat())];
  if (ids.length === 0 || ids.some((id) => id >= json.vocab_size)) {
    const what =
      ids.length === 0 ? 'no eos_token_id' : `eos_token_id ${ids} is outside vocab_size ${json.vocab_size}`;
    throw new UserError(what, folder, 'Set eos_token_id in generation_config.json or config.json.');
  }
  return ids;
}

/**
 * Reads `config.json` (and, for the end tokens, `generation_config.json` where it is) of a Hugging Face
 * model folder: Qwen3, Qwen2 and Qwen2.5, Llama and what is built like it, Mistral. Another architecture, or a
 * field that changes the computation in a way we do not build, is a UserError that names it.
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
  const architectures = readJsonFile(file, architectureSchema, AS_PUBLISHED).architectures ?? [];
  const family = Object.hasOwn(FAMILIES, architectures[0] ?? '') ? FAMILIES[architectures[0]!] : undefined;
  if (architectures.length !== 1 || !family) {
    const what = `architecture ${architectures.join(', ') || '(none named)'} is not supported`;
    throw new UserError(what, file, `Supported: ${Object.keys(FAMILIES).join(', ')}.`);
  }
  const json = readJsonFile(file, configSchema, AS_PUBLISHED);
  const fail = (what: string): never => {
    throw new UserError(what, file, `Use a plain (unquantised) checkpoint of ${architectures[0]}.`);
  };
  const refused = unsupported(json, family);
  if (refused.length > 0) fail(`not supported: ${refused.join('; ')}`);
  const biases = family.biases(json);
  return {
    architecture: family.architecture,
    vocabSize: json.vocab_size,
    hiddenSize: json.hidden_size,
    layers: json.num_hidden_layers,
    ...headsOf(json, family, fail),
    intermediateSize: json.intermediate_size,
    rmsNormEps: json.rms_norm_eps,
    rope: ropeOf(json, family, fail),
    tieWordEmbeddings: json.tie_word_embeddings,
    qkNorm: family.qkNorm,
    qkvBias: biases.qkv,
    outputBias: biases.output,
    mlpBias: biases.mlp,
    maxPositions: json.max_position_embeddings,
    eosTokenIds: eosIds(folder, json),
  };
}
