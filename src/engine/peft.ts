/**
 * LoRA adapters in the folder format of Hugging Face PEFT: `adapter_config.json` and
 * `adapter_model.safetensors`, readable by PEFT, transformers and vLLM.
 */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFolderAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import type { Random } from '../base/random.ts';
import type { DecoderConfig } from './model-config.ts';
import { peftConfigJson, readPeftConfig } from './peft-config.ts';
import { readSafetensors, safetensorsChunks } from './safetensors.ts';
import type { Adapter, LoraSpec, Tensor } from './types.ts';

/** The linear modules of a decoder layer, in the order in which they are applied. */
export const LORA_MODULES = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'gate_proj',
  'up_proj',
  'down_proj',
] as const;
export type LoraModule = (typeof LORA_MODULES)[number];

/** Where each sits in a layer and, given the config, its `[in, out]`. */
function moduleShape(config: DecoderConfig, module: LoraModule): { path: string; in: number; out: number } {
  const { hiddenSize: hidden, intermediateSize: ffn, heads, kvHeads, headDim } = config;
  switch (module) {
    case 'q_proj':
      return { path: 'self_attn.q_proj', in: hidden, out: heads * headDim };
    case 'k_proj':
    case 'v_proj':
      return { path: `self_attn.${module}`, in: hidden, out: kvHeads * headDim };
    case 'o_proj':
      return { path: 'self_attn.o_proj', in: heads * headDim, out: hidden };
    case 'gate_proj':
    case 'up_proj':
      return { path: `mlp.${module}`, in: hidden, out: ffn };
    case 'down_proj':
      return { path: 'mlp.down_proj', in: ffn, out: hidden };
  }
}

/** The factor before B·A·x: alpha / r, or alpha / √r with `rslora`. */
export function loraScale(spec: LoraSpec): number {
  return spec.alpha / (spec.rslora ? Math.sqrt(spec.r) : spec.r);
}

function checkSpec(spec: LoraSpec): void {
  const unknown = spec.targets.filter((name) => !LORA_MODULES.some((module) => module === name));
  if (unknown.length > 0 || spec.targets.length === 0) {
    const what = unknown.length > 0 ? `unknown LoRA targets ${unknown.join(', ')}` : 'no LoRA targets';
    throw new UserError(what, undefined, `Choose from ${LORA_MODULES.join(', ')}.`);
  }
  if (!Number.isInteger(spec.r) || spec.r < 1)
    throw new UserError(`LoRA r ${spec.r} is not a positive integer`);
  if (!(spec.alpha > 0 && spec.alpha < Infinity))
    throw new UserError(`LoRA alpha ${spec.alpha} is not positive`);
}

/**
 * The tensors of an adapter, name → shape: layer by layer, in the order of LORA_MODULES (whatever the order
 * of `spec.targets`), A `[r, in]` before B `[out, r]`. Every loop over an adapter follows this order.
 */
export function loraTensorShapes(config: DecoderConfig, spec: LoraSpec): Map<string, [number, number]> {
  checkSpec(spec);
  const shapes = new Map<string, [number, number]>();
  for (let layer = 0; layer < config.layers; layer++) {
    for (const module of LORA_MODULES.filter((name) => spec.targets.includes(name))) {
      const { path, in: inputs, out } = moduleShape(config, module);
      const prefix = `base_model.model.model.layers.${layer}.${path}`;
      shapes.set(`${prefix}.lora_A.weight`, [spec.r, inputs]);
      shapes.set(`${prefix}.lora_B.weight`, [out, spec.r]);
    }
  }
  return shapes;
}

/**
 * A fresh adapter that changes nothing: B zero, A uniform in ±1/√in, which is Kaiming-uniform with a = √5
 * as PEFT starts it (gain √(2 / (1 + 5)), bound gain · √(3 / in)).
 */
export function initAdapter(config: DecoderConfig, spec: LoraSpec, random: Random): Adapter {
  const tensors = new Map<string, Tensor>();
  for (const [name, shape] of loraTensorShapes(config, spec)) {
    const data = new Float32Array(shape[0] * shape[1]);
    if (name.endsWith('.lora_A.weight')) {
      const bound = 1 / Math.sqrt(shape[1]);
      for (let i = 0; i < data.length; i++) data[i] = (2 * random.next() - 1) * bound;
    }
    tensors.set(name, { shape, data });
  }
  return { spec, tensors };
}

/**
 * Throws a UserError unless the adapter has exactly the tensors that its spec has on this model, in their
 * shapes, all values finite. `where` names the adapter in the message.
 */
export function checkAdapterFits(adapter: Adapter, config: DecoderConfig, where?: string): void {
  const expected = loraTensorShapes(config, adapter.spec);
  const fail = (what: string): never => {
    const hint = 'The adapter was made for another base model, is incomplete, or adapts only some layers.';
    throw new UserError(what, where, hint);
  };
  for (const [name, shape] of expected) {
    const tensor = adapter.tensors.get(name) ?? fail(`${name} is missing`);
    if (tensor.shape.join() !== shape.join())
      fail(`${name} is [${tensor.shape}], the model needs [${shape}]`);
    if (!tensor.data.every(Number.isFinite)) fail(`${name} holds a value that is not finite`);
  }
  for (const name of adapter.tensors.keys())
    if (!expected.has(name)) fail(`${name} has no place in the model`);
}

/**
 * Writes a new adapter folder in f32, which exists only complete. `baseModel` is what base_model_name_or_path
 * says. UserError when `folder` exists: an adapter name is never reused. The tensors may not change until it
 * has been written.
 */
export async function writeAdapter(
  folder: string,
  adapter: Adapter,
  options: { baseModel: string; beside?: Record<string, string> },
): Promise<void> {
  if (existsSync(folder))
    throw new UserError('exists already', folder, 'Adapters are never overwritten: choose another name.');
  const targets = LORA_MODULES.filter((name) => adapter.spec.targets.includes(name));
  const config = peftConfigJson({ ...adapter.spec, targets }, options.baseModel);
  await writeFolderAtomic(folder, async (temporary) => {
    for (const [name, text] of Object.entries(options.beside ?? {}))
      await writeFile(join(temporary, name), text);
    const tensors = { dtype: 'F32', metadata: { format: 'pt' } } as const;
    const content = safetensorsChunks(adapter.tensors, tensors);
    // Not at once: rollouts are under way, and a large adapter takes a while.
    await writeFile(join(temporary, 'adapter_model.safetensors'), content);
    await writeFile(join(temporary, 'adapter_config.json'), `${JSON.stringify(config, null, 2)}\n`);
  });
}

const TENSOR_NAME =
  /^base_model\.model\.(model\.layers\.\d+\.(?:self_attn|mlp)\.(\w+))\.lora_([AB])\.weight$/;

const ADAPTER_HINT =
  'Give the folder of a PEFT LoRA adapter (adapter_config.json, adapter_model.safetensors).';
const PICKLE_HINT =
  'Save it again with safe_serialization=True: a .bin file is a pickle, which can run code when it is read.';

function requireFile(folder: string, name: string): string {
  const file = join(folder, name);
  if (existsSync(file)) return file;
  if (!existsSync(folder)) throw new UserError('no such folder', folder, ADAPTER_HINT);
  if (name.endsWith('.safetensors') && existsSync(join(folder, 'adapter_model.bin')))
    throw new UserError(
      'adapter_model.bin is not supported, only adapter_model.safetensors',
      folder,
      PICKLE_HINT,
    );
  throw new UserError(`${name} is missing`, folder, ADAPTER_HINT);
}

/**
 * Reads an adapter folder. Its tensors keep PEFT's names and come in the order of loraTensorShapes, widened
 * to f32. Checked here: the config's supported subset, names, A/B pairs, ranks, that every pair's module is a
 * target and, where the targets are a list, that every target has a pair. Whether it fits a base model:
 * checkAdapterFits. UserError for anything amiss.
 */
export function readAdapter(folder: string): Adapter {
  const config = readPeftConfig(requireFile(folder, 'adapter_config.json'));
  const listed = config.targets?.map((name) => name.slice(name.lastIndexOf('.') + 1));
  const { r, alpha, rslora } = config;
  if (listed) checkSpec({ r, alpha, rslora, targets: listed });
  const weightsFile = requireFile(folder, 'adapter_model.safetensors');
  const { tensors } = readSafetensors(weightsFile);
  const fail = (what: string): never => {
    throw new UserError(what, weightsFile, 'The adapter is incomplete or of a kind that is not supported.');
  };
  const seen = new Set<string>();
  for (const [name, { shape }] of tensors) {
    const [, path, module, side] = TENSOR_NAME.exec(name) ?? fail(`unexpected tensor ${name}`);
    if (!config.selects(path!)) fail(`${name} is not one of target_modules`);
    seen.add(module!);
    if (shape.length !== 2) fail(`${name} has shape [${shape}], not two dimensions`);
    if (shape[side === 'A' ? 0 : 1] !== r) fail(`${name} has shape [${shape}], which is not of rank ${r}`);
    const partner = name.replace(/lora_[AB]/, side === 'A' ? 'lora_B' : 'lora_A');
    if (!tensors.has(partner)) fail(`${name} is there, ${partner} is missing`);
  }
  for (const module of listed ?? []) if (!seen.has(module)) fail(`no tensors for the target ${module}`);
  if (seen.size === 0) fail('holds no tensors');
  const spec: LoraSpec = { r, alpha, rslora, targets: [...new Set(listed ?? seen)] };
  checkSpec(spec);
  return { spec, tensors: new Map([...tensors].sort(([a], [b]) => compareNames(a, b))) };
}

/** Layer, then module, then A before B. */
function compareNames(a: string, b: string): number {
  const key = (name: string): number => {
    const [, , module, side] = TENSOR_NAME.exec(name)!;
    const layer = Number(/layers\.(\d+)/.exec(name)![1]);
    const index = LORA_MODULES.indexOf(module as LoraModule);
    return (layer * LORA_MODULES.length + index) * 2 + (side === 'A' ? 0 : 1);
  };
  return key(a) - key(b);
}
