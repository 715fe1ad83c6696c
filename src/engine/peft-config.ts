/**
 * PEFT's `adapter_config.json`: the subset that says the same as our LoraSpec. Everything else that would
 * change what an adapter computes is refused by name.
 */
import { z } from 'zod';
import { messageOf, UserError } from '../base/errors.ts';
import { problemsOf, readJsonFile } from '../base/read-json.ts';
import type { LoraSpec } from './types.ts';

/** Anything PEFT takes as "not used": null, false, an empty string, list or record. */
const unused = z
  .unknown()
  .refine(
    (v) => !v || (typeof v === 'object' && Object.keys(v).length === 0),
    'is set, which is not supported',
  )
  .optional();

/**
 * Fields that change what an adapter computes are pinned to what we compute; the rest is ignored. Some
 * initialisations (PiSSA, OLoRA, CorDA, LoftQ, …) also change the base model, so only the others pass.
 */
const adapterConfigSchema = z.looseObject({
  peft_type: z.literal('LORA'),
  task_type: z.literal('CAUSAL_LM').nullish(),
  r: z.number().int().positive(),
  lora_alpha: z.number().positive(),
  target_modules: z.union([z.array(z.string()).min(1), z.string().min(1)]),
  bias: z.literal('none').default('none'),
  use_rslora: z.boolean().default(false),
  init_lora_weights: z.union([z.boolean(), z.enum(['gaussian', 'eva', 'orthogonal'])]).nullish(),
  use_dora: unused,
  use_qalora: unused,
  use_bdlora: unused,
  fan_in_fan_out: unused,
  lora_bias: unused,
  modules_to_save: unused,
  rank_pattern: unused,
  alpha_pattern: unused,
  exclude_modules: unused,
  layers_to_transform: unused,
  layer_replication: unused,
  trainable_token_indices: unused,
  target_parameters: unused,
  alora_invocation_tokens: unused,
  arrow_config: unused,
  kasa_config: unused,
  monteclora_config: unused,
});

export interface PeftConfig {
  r: number;
  alpha: number;
  rslora: boolean;
  /** Names of modules, perhaps with a part of their path before them; null: whatever the tensors name. */
  targets: string[] | null;
  /** Whether a module, such as `model.layers.0.self_attn.q_proj`, is one that the adapter is for. */
  selects(path: string): boolean;
  /** What `base_model_name_or_path` says; null where it says nothing. */
  baseModel: string | null;
}

/** Reads and checks `file`. UserError when it is no JSON, no LoRA config, or holds what is not supported. */
export function readPeftConfig(file: string): PeftConfig {
  const json = readJsonFile(file, z.unknown(), 'Copy the adapter again.');
  const result = adapterConfigSchema.safeParse(json);
  if (!result.success)
    throw new UserError(
      `not supported: ${problemsOf(result.error)}`,
      file,
      'Supported: plain LoRA, one rank and one alpha, no bias, no DoRA, no fully trained modules.',
    );
  const { r, lora_alpha: alpha, use_rslora: rslora, target_modules, base_model_name_or_path } = result.data;
  const targets = Array.isArray(target_modules) ? target_modules : null;
  const baseModel = typeof base_model_name_or_path === 'string' ? base_model_name_or_path : null;
  return { r, alpha, rslora, targets, selects: moduleTest(target_modules, file), baseModel };
}

/**
 * As PEFT reads `target_modules`: a list holds module names or ends of module paths; a string is an
 * expression that must match the whole path, or `all-linear`.
 */
function moduleTest(targets: string | string[], file: string): (path: string) => boolean {
  if (typeof targets === 'string' && targets.toLowerCase() === 'all-linear') return () => true;
  if (Array.isArray(targets))
    return (path) => targets.some((name) => path === name || path.endsWith(`.${name}`));
  try {
    const pattern = new RegExp(`^(?:${targets})$`);
    return (path) => pattern.test(path);
  } catch (error) {
    throw new UserError(
      `target_modules is an expression that only Python knows (${messageOf(error)})`,
      file,
      'Put the list of module names in its place, such as ["q_proj", "v_proj"].',
    );
  }
}

/** What we write: every field that PEFT or vLLM reads to rebuild `spec`, in the order of their names. */
export function peftConfigJson({ r, alpha, rslora, targets }: LoraSpec, baseModel: string) {
  return {
    base_model_name_or_path: baseModel,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    lora_alpha: alpha,
    lora_dropout: 0,
    modules_to_save: null,
    peft_type: 'LORA',
    r,
    target_modules: targets,
    task_type: 'CAUSAL_LM',
    use_dora: false,
    use_rslora: rslora,
  };
}
