/**
 * Text to token ids and back, by a model's own `tokenizer.json`.
 *
 * Two kinds of text are kept apart. Text from outside (questions, statutes, what the policy wrote) goes
 * through `encode`, which cannot give a control token whatever the text says: the control tokens are taken
 * out of the encoder's vocabulary. Only our own markup goes through `encodeMarkup`.
 *
 * The smallest tokenizer.json that this loader and Python's `tokenizers` read alike is
 * `test/vectors/char-tokenizer`: characters with byte fallback, and pieces such as `{"action":"` as added
 * tokens that are not special, which `encode` does recognise.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { z } from 'zod';
import { UserError } from '../base/errors.ts';
import { readJsonFile } from '../base/read-json.ts';
import { BYTE_TOKEN, byteTokens, decodeByteFallback } from './byte-tokens.ts';
import { markSpaces, type SpaceMark, spaceMarkOf, unmarkSpaces } from './space-mark.ts';

/**
 * A control token steers the model: one that is marked special, or that is written like a tag. (Qwen3 has
 * `<think>` and `<tool_call>` as added tokens that are not special; in a statute they are text too.)
 */
export interface ControlToken {
  content: string;
  id: number;
  special: boolean;
}

export interface TextTokenizer {
  /** Ids of plain text: never a control token; added tokens such as `{"action":"` are recognised. */
  encode(text: string): number[];
  /** Ids of text of ours, such as a rendered chat template: control tokens in it are recognised. */
  encodeMarkup(text: string): number[];
  /** Ids of what `splitControl` gave: a stretch of text is encoded as what follows the parts before it. */
  encodeParts(parts: readonly (string | number)[]): number[];
  /**
   * The text of `ids`. Ids without a token (a padded embedding has some) give nothing, bytes that are no
   * UTF-8 give U+FFFD. `skipSpecial` leaves special tokens out.
   */
  decode(ids: readonly number[], options: { skipSpecial: boolean }): string;
  /** The token that `tokenizers` puts before a text of its own (Llama's, Mistral's); null for none. */
  readonly startId: number | null;
  /** One more than the largest id. */
  readonly vocabSize: number;
  /** Most characters (UTF-16 units) that a token can stand for, or more. */
  readonly longestToken: number;
  /** The id of exactly this token, control tokens included. */
  tokenId(token: string): number | undefined;
  readonly controlTokens: readonly ControlToken[];
  /** `text` cut at the control tokens in it: text as strings, control tokens as ids, in order. */
  splitControl(text: string): (string | number)[];
}

const id = z.number().int().min(0);
const addedSchema = z.looseObject({
  id,
  content: z.string().min(1),
  special: z.boolean().default(false),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().default(false),
});
const tokenizerSchema = z.looseObject({
  added_tokens: z.array(addedSchema),
  normalizer: z.unknown().optional(),
  pre_tokenizer: z.unknown().optional(),
  decoder: z.unknown().optional(),
  post_processor: z.unknown().optional(),
  model: z.looseObject({
    type: z.string(),
    vocab: z.record(z.string(), id),
    merges: z.array(z.unknown()),
  }),
});
type TokenizerJson = z.infer<typeof tokenizerSchema>;

const namedToken = z.union([z.string(), z.looseObject({ content: z.string() }), z.null()]);
export const tokenizerConfigSchema = z.looseObject({
  bos_token: namedToken.optional(),
  eos_token: namedToken.optional(),
  unk_token: namedToken.optional(),
  pad_token: namedToken.optional(),
  additional_special_tokens: z.array(namedToken).nullish(),
  // transformers 5: a list, or names of its own
  extra_special_tokens: z.union([z.array(namedToken), z.record(z.string(), namedToken)]).nullish(),
  chat_template: z
    .union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))])
    .nullish(),
});
export type TokenizerConfig = z.infer<typeof tokenizerConfigSchema>;

/** The text of a token that tokenizer_config.json names as a string or as an object. */
export function tokenText(token: z.infer<typeof namedToken> | undefined): string | undefined {
  return typeof token === 'string' ? token : (token?.content ?? undefined);
}

/** Reads and checks a JSON file of a model folder. `undefined` when it is missing. */
export function readModelJson<T>(schema: z.ZodType<T>, folder: string, name: string): T | undefined {
  const file = join(folder, name);
  if (!existsSync(file)) return undefined;
  return readJsonFile(file, schema, 'Take the file as the model was published: copy or download it again.');
}

const typeOf = (part: unknown): string => (part as { type?: string } | null | undefined)?.type ?? 'none';

/** How tokens are put together to text, and how spaces are written in them. */
type Spelling = { kind: 'byte-level' } | { kind: 'byte-fallback'; spaces: SpaceMark | null };

/** Undefined for any other spelling than those we know to the letter. */
function spellingOf(json: TokenizerJson): Spelling | undefined {
  if (typeOf(json.decoder) === 'ByteLevel') return { kind: 'byte-level' };
  const spaces = spaceMarkOf(json);
  if (spaces) return { kind: 'byte-fallback', spaces };
  const steps = (json.decoder as { decoders?: unknown[] } | null)?.decoders?.map(typeOf).join('+');
  const plain = typeOf(json.decoder) === 'Sequence' && steps === 'ByteFallback+Fuse';
  return plain ? { kind: 'byte-fallback', spaces: null } : undefined;
}

/** What would make our ids differ from the reference implementation's. */
function unsupported(json: TokenizerJson, control: readonly ControlToken[]): string[] {
  const problems: string[] = [];
  const spelling = spellingOf(json);
  if (json.model.type !== 'BPE') problems.push(`model type ${json.model.type}`);
  if (!spelling) problems.push(`decoder ${typeOf(json.decoder)} with its normalizer and pre_tokenizer`);
  const marked = spelling?.kind === 'byte-fallback' && spelling.spaces !== null;
  if (!marked && JSON.stringify(json.pre_tokenizer ?? null).match(/"add_prefix_space":true|"Metaspace"/))
    problems.push('a pre_tokenizer that adds a prefix space');
  if (spelling) {
    const missing = byteTokens(spelling.kind).filter((token) => json.model.vocab[token] === undefined);
    if (missing.length > 0) problems.push(`a vocabulary without ${missing.length} of the 256 bytes`);
  }
  for (const { content, single_word, lstrip, rstrip, normalized } of json.added_tokens) {
    if (single_word || lstrip || rstrip)
      problems.push(`added token ${content} with single_word, lstrip or rstrip`);
    // it would be looked for after the spaces of the whole text were marked
    if (normalized && marked) problems.push(`added token ${content} with normalized`);
  }
  const names = new Set(control.map((token) => token.content));
  for (const { content } of control) if (content.length < 2) problems.push(`one-character token ${content}`);
  const merged = json.model.merges
    .map((merge) => (Array.isArray(merge) ? merge.join('') : String(merge).replace(' ', '')))
    .find((token) => names.has(token));
  if (merged !== undefined) problems.push(`control token ${merged}, which ordinary text merges to`);
  return problems;
}

function controlTokensOf(json: TokenizerJson, config: TokenizerConfig): ControlToken[] {
  const { bos_token, eos_token, unk_token, pad_token, additional_special_tokens: more } = config;
  const extra = Object.values(config.extra_special_tokens ?? {});
  const names = [bos_token, eos_token, unk_token, pad_token, ...(more ?? []), ...extra];
  const named = new Set(names.map(tokenText));
  return json.added_tokens
    .map(({ content, id, special }) => ({ content, id, special: special || named.has(content) }))
    .filter(({ content, special }) => special || (/^<.+>$/s.test(content) && !BYTE_TOKEN.test(content)));
}

/** The library's tokenizer over everything but the control tokens; spaces that are marked are ours to mark. */
function plainTokenizer(json: TokenizerJson, control: readonly ControlToken[], marked: boolean): Tokenizer {
  const controlIds = new Set(control.map((token) => token.id));
  const vocab = { ...json.model.vocab };
  for (const { content } of control) delete vocab[content];
  const plain = {
    normalizer: marked ? null : (json.normalizer ?? null),
    pre_tokenizer: marked ? null : (json.pre_tokenizer ?? null),
    decoder: json.decoder,
    added_tokens: json.added_tokens.filter((token) => !controlIds.has(token.id)),
    post_processor: null,
    model: { ...json.model, vocab },
  };
  return new Tokenizer(plain, { clean_up_tokenization_spaces: false });
}

/** Longest first, so that at one place the longest token wins, as in the reference implementation. */
function controlPattern(control: readonly ControlToken[]): RegExp | undefined {
  const contents = control.map((token) => token.content).sort((a, b) => b.length - a.length);
  const escaped = contents.map((content) => content.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return contents.length > 0 ? new RegExp(`(${escaped.join('|')})`, 'g') : undefined;
}

/** The token at the front of the template by which `tokenizers` finishes a single text. */
function startTokenOf(json: TokenizerJson): string | undefined {
  const template = z.looseObject({
    type: z.literal('TemplateProcessing'),
    single: z.array(z.looseObject({ SpecialToken: z.looseObject({ id: z.string() }).optional() })),
  });
  const processor = json.post_processor as { processors?: unknown[] } | null | undefined;
  for (const step of processor?.processors ?? [processor]) {
    const parsed = template.safeParse(step);
    if (parsed.success) return parsed.data.single[0]?.SpecialToken?.id;
  }
  return undefined;
}

/**
 * Loads `tokenizer.json` and, where it is, `tokenizer_config.json` of a Hugging Face model folder.
 * Byte-level BPE (Qwen, Llama 3, SmolLM, Mistral's newer ones) and BPE with byte fallback, in SentencePiece's
 * manner (Llama 2, Mistral 7B) or without; UserError for a missing or damaged file and for whatever would give
 * other ids than the reference implementation.
 */
export function loadTokenizer(folder: string): TextTokenizer {
  const json = readModelJson(tokenizerSchema, folder, 'tokenizer.json');
  if (!json) {
    const what = existsSync(folder) ? 'tokenizer.json is missing' : 'no such folder';
    throw new UserError(what, folder, 'Give the folder of a model in Hugging Face layout.');
  }
  const config = readModelJson(tokenizerConfigSchema, folder, 'tokenizer_config.json') ?? {};
  const control = controlTokensOf(json, config);
  const problems = unsupported(json, control);
  if (problems.length > 0) {
    throw new UserError(`not supported: ${problems.join('; ')}`, join(folder, 'tokenizer.json'));
  }

  const spelling = spellingOf(json)!;
  const spaces = spelling.kind === 'byte-fallback' ? spelling.spaces : null;
  const plain = plainTokenizer(json, control, spaces !== null);
  const pattern = controlPattern(control);
  const byContent = new Map(control.map((token) => [token.content, token]));
  const byId = new Map(control.map((token) => [token.id, token]));
  const largest = Object.values(json.model.vocab).reduce((a, b) => Math.max(a, b), -1);
  const vocabSize = json.added_tokens.reduce((n, token) => Math.max(n, token.id + 1), largest + 1);
  // of bytes, a token has one character each: at least as many as the text has units
  const spellings = [...Object.keys(json.model.vocab), ...json.added_tokens.map(({ content }) => content)];
  const longestToken = spellings.reduce((most, { length }) => Math.max(most, length), 1);
  const tokenId = (token: string): number | undefined => byContent.get(token)?.id ?? plain.token_to_id(token);

  const encodeStretch = (text: string, isStart: boolean): number[] => {
    if (text === '') return [];
    const marked = spaces ? markSpaces(text, spaces, isStart) : text;
    return plain.encode(marked, { add_special_tokens: false }).ids;
  };
  const splitControl = (text: string): (string | number)[] =>
    (pattern ? text.split(pattern) : [text]).filter((s) => s !== '').map((s) => byContent.get(s)?.id ?? s);
  const encodeParts = (parts: readonly (string | number)[]): number[] =>
    parts.flatMap((part, i) => (typeof part === 'number' ? [part] : encodeStretch(part, i === 0)));

  const decodeByteLevel = (ids: readonly number[]): string => {
    let text = '';
    let run: number[] = [];
    const flush = (): void => {
      if (run.length > 0) text += plain.decode(run);
      run = [];
    };
    for (const id of ids) {
      const token = byId.get(id);
      if (token) {
        flush();
        text += token.content;
      } else if (plain.id_to_token(id) !== undefined) run.push(id);
    }
    flush();
    return text;
  };
  const decodeFallback = (ids: readonly number[]): string => {
    const tokens = ids.map((id) => byId.get(id)?.content ?? plain.id_to_token(id));
    const known = tokens.filter((token) => token !== undefined);
    if (!spaces) return decodeByteFallback(known);
    const text = decodeByteFallback(known.map(unmarkSpaces));
    return spaces.strip && text.startsWith(' ') ? text.slice(1) : text;
  };

  return {
    encode: (text) => encodeStretch(text, true),
    encodeMarkup: (text) => encodeParts(splitControl(text)),
    encodeParts,
    decode: (ids, { skipSpecial }) => {
      const shown = skipSpecial ? ids.filter((id) => !byId.get(id)?.special) : ids;
      return spelling.kind === 'byte-level' ? decodeByteLevel(shown) : decodeFallback(shown);
    },
    startId: tokenId(startTokenOf(json) ?? '') ?? null,
    vocabSize,
    longestToken,
    tokenId,
    controlTokens: control,
    splitControl,
  };
}
