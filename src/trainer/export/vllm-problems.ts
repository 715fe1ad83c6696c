/**
 * What vLLM would say to an adapter, or would not say and serve the base model instead: the rules of its
 * LoRA loader (vllm/lora/peft_helper.py, lora_model.py, config/lora.py), applied to names and shapes alone.
 */
import { z } from 'zod';
import { LORA_MODULES } from '../../engine/peft.ts';

/** The only values of `--max-lora-rank`: each is a ceiling for the adapters that load. */
const VLLM_RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512] as const;
const DEFAULT_MAX_RANK = 16;

/** The smallest `--max-lora-rank` that takes rank `r`; null when none does. */
export function maxLoraRank(r: number): number | null {
  return VLLM_RANKS.find((ceiling) => ceiling >= r) ?? null;
}

/** `error`: vLLM refuses the adapter, or ignores it silently. `warning`: it loads with the setting named. */
export interface VllmProblem {
  kind: 'error' | 'warning';
  message: string;
}

/** A tensor's header in the safetensors file. */
export interface TensorHeader {
  dtype: string;
  shape: readonly number[];
}

const configSchema = z.looseObject({
  r: z.number().int().positive(),
  lora_alpha: z.number(),
  target_modules: z.union([z.string(), z.array(z.string())]),
  bias: z.string().nullish(),
  modules_to_save: z.unknown().optional(),
  use_dora: z.unknown().optional(),
  rank_pattern: z.unknown().optional(),
  alpha_pattern: z.unknown().optional(),
});

const DTYPES = ['F32', 'F16', 'BF16'];
const LORA_WEIGHT = /^(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight$/;
/** Path of a module in the text decoders that we train; another prefix is accepted and then never applied. */
const LAYER_MODULE = /^model\.layers\.\d+\.(?:self_attn\.[qkvo]_proj|mlp\.(?:gate|up|down)_proj)$/;

const isSet = (value: unknown): boolean =>
  Boolean(value) && !(typeof value === 'object' && Object.keys(value as object).length === 0);

/**
 * The problems of an adapter (parsed `adapter_config.json`, tensor headers by name) with vLLM as it serves
 * Qwen3, Qwen2.5 and Llama text models; empty when it loads into a server with default settings. Errors first.
 */
export function vllmProblems(config: unknown, tensors: ReadonlyMap<string, TensorHeader>): VllmProblem[] {
  const parsed = configSchema.safeParse(config);
  if (!parsed.success) {
    const fields = parsed.error.issues.map(({ path }) => path.join('.') || 'the whole of it').join(', ');
    return [{ kind: 'error', message: `adapter_config.json: missing or wrong: ${fields}` }];
  }
  const { r, ...rest } = parsed.data;
  const messages = [...configErrors(rest), ...tensorErrors(tensors, r)];
  const ceiling = maxLoraRank(r);
  if (ceiling === null) messages.push(`rank ${r} is above vLLM's highest, ${VLLM_RANKS.at(-1)}`);
  const problems: VllmProblem[] = messages.map((message) => ({ kind: 'error', message }));
  if (ceiling !== null && ceiling > DEFAULT_MAX_RANK)
    problems.push({
      kind: 'warning',
      message: `rank ${r} is above vLLM's default of ${DEFAULT_MAX_RANK}: start it with --max-lora-rank ${ceiling}`,
    });
  return problems;
}

function configErrors(config: Omit<z.infer<typeof configSchema>, 'r'>): string[] {
  const out: string[] = [];
  if (config.bias != null && config.bias !== 'none')
    out.push(`bias ${config.bias}: vLLM takes adapters without trained biases only`);
  if (isSet(config.modules_to_save))
    out.push('modules_to_save: vLLM takes adapters without fully trained modules only');
  if (isSet(config.use_dora)) out.push('use_dora: vLLM knows no DoRA');
  for (const name of ['rank_pattern', 'alpha_pattern'] as const)
    if (isSet(config[name])) out.push(`${name}: vLLM does not read it and would scale modules wrongly`);
  return out;
}

function tensorErrors(tensors: ReadonlyMap<string, TensorHeader>, r: number): string[] {
  const out: string[] = [];
  if (tensors.size === 0) out.push('no tensors');
  for (const [name, { dtype, shape }] of tensors) {
    const [, path = '', side] = LORA_WEIGHT.exec(name) ?? [];
    if (!side) {
      out.push(`${name}: not a LoRA weight that vLLM knows`);
      continue;
    }
    const module = path.slice(path.lastIndexOf('.') + 1);
    if (!LORA_MODULES.some((known) => known === module))
      out.push(`${name}: ${module} is not one of ${LORA_MODULES.join(', ')}`);
    else if (!LAYER_MODULE.test(path))
      out.push(`${name}: vLLM has no module ${path}; it would load and change nothing`);
    if (!DTYPES.includes(dtype)) out.push(`${name}: dtype ${dtype} is not one of ${DTYPES.join(', ')}`);
    if (shape.length !== 2) out.push(`${name}: shape [${shape}] is not two-dimensional`);
    else if (shape[side === 'A' ? 0 : 1] !== r) out.push(`${name}: shape [${shape}] is not of rank ${r}`);
    const partner = name.replace(/lora_([AB])\.weight$/, side === 'A' ? 'lora_B.weight' : 'lora_A.weight');
    if (!tensors.has(partner)) out.push(`${name}: its partner ${partner} is missing`);
  }
  return out;
}
