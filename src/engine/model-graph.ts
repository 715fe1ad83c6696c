/** What the training and the decode graph share: a model's weights and an adapter as nodes. */
import { UserError } from '../base/errors.ts';
import type { DecoderWeights } from './decoder.ts';
import { sameBytes } from './file-bytes.ts';
import { type Graph, input, type Node, weight } from './graph.ts';
import type { DecoderConfig } from './model-config.ts';
import { loraTensorShapes } from './peft.ts';
import type { SafetensorsEntry } from './safetensors.ts';
import type { LoraSpec, TensorMap } from './types.ts';

export interface ModelNodes {
  weights: DecoderWeights;
  /** LoRA tensors by PEFT name, in the adapter's order. */
  lora: Map<string, Node>;
  /** Base weights in the order in which the decoder asked for them. */
  base: Map<string, Node>;
}

/**
 * Nodes for the tensors of a model. `frozen`: base weights are read from their files; otherwise they are
 * inputs. Throws a UserError for weights of more layers than the config has, and, when the decoder asks, for
 * a weight that is missing or has another shape.
 */
export function modelNodes(
  graph: Graph,
  config: DecoderConfig,
  spec: LoraSpec | null,
  entries: ReadonlyMap<string, SafetensorsEntry>,
  frozen: boolean,
): ModelNodes {
  const lora = new Map<string, Node>();
  if (spec) {
    for (const [name, shape] of loraTensorShapes(config, spec))
      lora.set(name, input(graph, name, 'f32', shape));
  }
  checkLayers(config, entries);
  const base = new Map<string, Node>();
  const weights: DecoderWeights = {
    base(name, shape) {
      const known = base.get(name);
      if (known) return known;
      const entry = entries.get(name);
      if (!entry)
        throw new UserError(`has no tensor '${name}'`, 'model weights', 'check config.json against them');
      if (entry.shape.join() !== shape.join()) {
        throw new UserError(
          `'${name}' has shape [${entry.shape}], config.json asks for [${shape}]`,
          entry.file,
          'config.json and the weights belong to different models',
        );
      }
      const node = frozen ? weight(graph, name, [...shape]) : input(graph, name, 'f32', shape);
      base.set(name, node);
      return node;
    },
    lora(module) {
      const a = lora.get(`base_model.model.model.${module}.lora_A.weight`);
      const b = lora.get(`base_model.model.model.${module}.lora_B.weight`);
      return a && b ? { a, b } : null;
    },
    scale: input(graph, 'lora_scale', 'f32', [1]),
  };
  return { weights, lora, base };
}

/** A model cut short by its config.json would compute something, and nothing sensible. */
function checkLayers(config: DecoderConfig, entries: ReadonlyMap<string, SafetensorsEntry>): void {
  for (const [name, { file }] of entries)
    if (Number(/^model\.layers\.(\d+)\./.exec(name)?.[1] ?? -1) >= config.layers)
      throw new UserError(
        `holds '${name}', config.json has ${config.layers} layers`,
        file,
        'config.json and the weights belong to different models',
      );
}

/**
 * Throws a UserError for a weight that the graph, once built, did not ask for: a model that has it computes
 * something else (biases, norms, experts that its config.json does not tell of). Two kinds are harmless: tables
 * of rotary frequencies, and an output projection of its own that equals the embedding it is tied to.
 */
export function checkAllUsed(
  config: DecoderConfig,
  { base }: ModelNodes,
  entries: ReadonlyMap<string, SafetensorsEntry>,
): void {
  const unused = [...entries.values()].filter(
    ({ name }) => !base.has(name) && !name.endsWith('.rotary_emb.inv_freq'),
  );
  const embedding = entries.get('model.embed_tokens.weight')!;
  for (const entry of unused) {
    const head = config.tieWordEmbeddings && entry.name === 'lm_head.weight';
    if (head && entry.dtype === embedding.dtype && sameBytes(entry, embedding)) continue;
    throw new UserError(
      head
        ? `holds an 'lm_head.weight' that is not the embedding, and config.json has tie_word_embeddings`
        : `holds '${entry.name}', which ${config.architecture} with this config.json does not use`,
      entry.file,
      'config.json and the weights belong to different models',
    );
  }
}

/** Throws unless `params` has exactly the tensors of `expected`, in their shapes. */
export function checkParams(params: TensorMap, expected: ReadonlyMap<string, readonly number[]>): void {
  for (const [name, shape] of expected) {
    const tensor = params.get(name);
    if (!tensor) throw new Error(`parameter '${name}' is missing`);
    if (tensor.shape.join() !== shape.join()) {
      throw new Error(`parameter '${name}' has shape [${tensor.shape}], the session has [${shape}]`);
    }
  }
  for (const name of params.keys()) if (!expected.has(name)) throw new Error(`unknown parameter '${name}'`);
}
