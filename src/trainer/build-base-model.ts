/**
 * Makes a small base model from scratch: Qwen3's architecture in Hugging Face layout, with a character
 * tokenizer and weights pretrained on a corpus of statutes. Such a model knows nothing but the corpus and
 * the environment's formats; it exists so that a policy can be trained on any machine in minutes.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeFolderAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { writeSafetensors } from '../engine/safetensors.ts';
import type { TensorMap } from '../engine/types.ts';
import type { LawyerConfig } from '../env/lawyer/config.ts';
import { LAWYER_PROMPTS } from '../env/lawyer/prompts/packs.ts';
import { offeredActions } from '../env/malr/agents.ts';
import { targetSource } from '../env/malr/demonstration-targets.ts';
import { PACKS } from '../env/malr/prompts/build-messages.ts';
import type { PromptPack } from '../env/malr/prompts/pack.ts';
import { mineTerms } from '../env/terms.ts';
import type { Article, Query } from '../env/types.ts';
import { buildTokenizer, type TokenizerFiles, writeTokenizer } from '../rollout/build-tokenizer.ts';
import { loadChatTemplate, renderPromptIds } from '../rollout/chat-template.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { LAY_WORDS, QUESTION_ENDINGS, QUESTION_OPENINGS } from './lay-words.ts';
import { pretrain } from './pretrain.ts';
import { pretrainSampler } from './pretrain-text.ts';

export type ModelSize = 'tiny' | 'small';

interface Shape {
  hidden: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  intermediate: number;
  /** Most tokens of the vocabulary. */
  vocab: number;
  /** Input tokens of one update. On few tokens, many small updates beat few large ones (measured). */
  tokensPerStep: number;
  learningRate: number;
}

/** `tiny`: about 1 M parameters, 4 MB; `small`: about 3.7 M, 15 MB, in f32. */
const SHAPES: Record<ModelSize, Shape> = {
  tiny: {
    hidden: 128,
    layers: 4,
    heads: 4,
    kvHeads: 2,
    headDim: 32,
    intermediate: 384,
    vocab: 1792,
    tokensPerStep: 512,
    learningRate: 3e-3,
  },
  small: {
    hidden: 256,
    layers: 4,
    heads: 4,
    kvHeads: 2,
    headDim: 64,
    intermediate: 768,
    vocab: 2048,
    tokensPerStep: 1024,
    learningRate: 2e-3,
  },
};

const MAX_LENGTH = 512;
/** A character of a question counts as often as so many in the statutes: questions are what a policy reads. */
const QUESTION_WEIGHT = 50;
const INIT_STD = 0.02;

export interface BuildBaseModelOptions {
  articles: readonly Article[];
  /**
   * Training questions, or none. Their characters go into the vocabulary, and the laws of their gold
   * articles are read more often; the questions themselves are not trained on.
   */
  queries: readonly Query[];
  /** Made anew; must not exist yet. */
  folder: string;
  size: ModelSize;
  /** Pretraining tokens; 0 leaves the weights random. */
  tokens: number;
  /** Input tokens of one update, and the highest learning rate; by default the size's own. */
  tokensPerStep?: number | undefined;
  learningRate?: number | undefined;
  threads: number;
  seed: number;
  /** For the Lawyer's turns, by these settings, with facts and charges of cases; null: for LegalMALR's calls. */
  lawyer: { config: LawyerConfig; facts: readonly string[]; charges: readonly string[] } | null;
  log: (line: string) => void;
}

/**
 * Builds the model folder, which appears when it is whole. The same options give the same bytes. UserError
 * when the folder exists. Where another process makes the same folder first, that one stays, and `log` says so.
 */
export async function buildBaseModel(options: BuildBaseModelOptions): Promise<void> {
  const { folder, log } = options;
  if (existsSync(folder)) {
    throw new UserError('exists already', folder, 'Remove it, or name another folder.');
  }
  let whole = false;
  try {
    await writeFolderAtomic(folder, async (temporary) => {
      await fillFolder(temporary, options);
      whole = true;
    });
  } catch (error) {
    if (!whole || !existsSync(join(folder, 'config.json'))) throw error;
    log(`${folder} was made by another process meanwhile: that one is taken`);
  }
}

/** Tokenizer, config and weights, trained. */
async function fillFolder(folder: string, options: BuildBaseModelOptions): Promise<void> {
  const { articles, queries, size, seed, log } = options;
  const pack = PACKS['zh-compact'];
  const shape = SHAPES[size];
  const terms = mineTerms(articles);
  const source = targetSource(new Map(articles.map((article) => [article.id, article])), terms);
  const focus = queries.flatMap((query) => query.gold);
  log(`${terms.size.toLocaleString('en')} terms in ${articles.length.toLocaleString('en')} articles`);
  const files = buildTokenizer(vocabularyTexts(articles, queries, options.lawyer?.facts ?? []), {
    size: shape.vocab,
    required: requiredCharacters(pack) + (options.lawyer ? LAWYER_CHARACTERS : ''),
    maxLength: MAX_LENGTH,
  });
  writeTokenizer(folder, files);
  writeJson(join(folder, 'config.json'), configJson(shape, files));
  writeJson(join(folder, 'generation_config.json'), {
    eos_token_id: files.endId,
    pad_token_id: files.padId,
    do_sample: true,
    temperature: 1,
  });
  const weights = initialWeights(shape, files.vocabSize, seed);
  writeSafetensors(join(folder, 'model.safetensors'), weights, { dtype: 'F32', metadata: { format: 'pt' } });
  log(
    `${size} base model: ${parameters(weights).toLocaleString('en')} parameters, ${files.vocabSize} tokens`,
  );
  if (options.tokens === 0) return;
  const tokenizer = loadTokenizer(folder);
  const template = loadChatTemplate(folder);
  const samples = pretrainSampler({
    articles,
    source,
    pack,
    offered: offeredActions({ allowOriginal: true }),
    focus,
    renderPrompt: (messages) => renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true }),
    encode: tokenizer.encode,
    endId: files.endId,
    seed,
    lawyer: options.lawyer,
  });
  await pretrain({
    folder,
    samples,
    tokens: options.tokens,
    tokensPerStep: options.tokensPerStep ?? shape.tokensPerStep,
    learningRate: options.learningRate ?? shape.learningRate,
    warmupShare: 0.03,
    threads: options.threads,
    log,
  });
}

function* vocabularyTexts(
  articles: readonly Article[],
  queries: readonly Query[],
  facts: readonly string[],
): Iterable<string> {
  yield* facts;
  for (const { title, text } of articles) {
    yield title;
    yield text;
  }
  for (const { query } of queries) yield query.repeat(QUESTION_WEIGHT);
}

/** Every character of the compact Lawyer's prompts and turns. */
const LAWYER_CHARACTERS = [
  ...Object.values(LAWYER_PROMPTS['zh-compact']),
  '法案止轮误无重生要件量刑｜…；0123456789',
].join('');

/** Every character of the prompts and of the made-up questions. */
function requiredCharacters(pack: PromptPack): string {
  const prompts = [
    ...Object.values(pack.system),
    ...Object.values(pack.actionNames),
    pack.plannerFirst,
    pack.planner,
  ];
  const lay = LAY_WORDS.flatMap(([legal, words]) => [legal, ...words]);
  return [...prompts, ...lay, ...QUESTION_ENDINGS, ...QUESTION_OPENINGS, '：，。？'].join('');
}

function configJson(shape: Shape, { vocabSize, endId, padId }: TokenizerFiles): object {
  return {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    vocab_size: vocabSize,
    hidden_size: shape.hidden,
    intermediate_size: shape.intermediate,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads,
    head_dim: shape.headDim,
    hidden_act: 'silu',
    max_position_embeddings: MAX_LENGTH,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    rope_scaling: null,
    attention_bias: false,
    attention_dropout: 0,
    use_sliding_window: false,
    sliding_window: null,
    max_window_layers: shape.layers,
    tie_word_embeddings: true,
    initializer_range: INIT_STD,
    use_cache: true,
    torch_dtype: 'float32',
    eos_token_id: endId,
    pad_token_id: padId,
  };
}

/**
 * Random weights by Hugging Face names: normal with deviation 0.02, the projections back into the residual
 * stream divided by √(2 · layers) as in GPT-2 (Radford et al. 2019), norms 1. One stream a tensor.
 */
function initialWeights(shape: Shape, vocabSize: number, seed: number): TensorMap {
  const { hidden, layers, heads, kvHeads, headDim, intermediate } = shape;
  const weights: TensorMap = new Map();
  const normal = (name: string, rows: number, columns: number, std = INIT_STD): void => {
    const random = stream(seed, 'initial-weights', name);
    const data = Float32Array.from({ length: rows * columns }, () => std * random.normal());
    weights.set(name, { shape: [rows, columns], data });
  };
  const ones = (name: string, size: number): void => {
    weights.set(name, { shape: [size], data: new Float32Array(size).fill(1) });
  };
  const residual = INIT_STD / Math.sqrt(2 * layers);
  normal('model.embed_tokens.weight', vocabSize, hidden);
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    ones(`${at}.input_layernorm.weight`, hidden);
    normal(`${at}.self_attn.q_proj.weight`, heads * headDim, hidden);
    normal(`${at}.self_attn.k_proj.weight`, kvHeads * headDim, hidden);
    normal(`${at}.self_attn.v_proj.weight`, kvHeads * headDim, hidden);
    normal(`${at}.self_attn.o_proj.weight`, hidden, heads * headDim, residual);
    ones(`${at}.self_attn.q_norm.weight`, headDim);
    ones(`${at}.self_attn.k_norm.weight`, headDim);
    ones(`${at}.post_attention_layernorm.weight`, hidden);
    normal(`${at}.mlp.gate_proj.weight`, intermediate, hidden);
    normal(`${at}.mlp.up_proj.weight`, intermediate, hidden);
    normal(`${at}.mlp.down_proj.weight`, hidden, intermediate, residual);
  }
  ones('model.norm.weight', hidden);
  return weights;
}

function parameters(weights: TensorMap): number {
  let sum = 0;
  for (const { data } of weights.values()) sum += data.length;
  return sum;
}

function writeJson(file: string, value: object): void {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}
