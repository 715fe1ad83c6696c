/**
 * Builds the tokenizer of a small base model: one token a character, bytes for rare characters, and the
 * pieces of the action protocol as one token each, so that `{"action":"terminate"}` is three tokens that a
 * tiny model cannot misspell. The files load alike in `@huggingface/tokenizers` and in Python's
 * `tokenizers`: BPE without merges, byte fallback, no normaliser.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACTIONS } from '../env/malr/agents.ts';

export const PAD_TOKEN = '<|pad|>';
export const END_TOKEN = '<|end|>';
const SPECIAL_TOKENS = [PAD_TOKEN, END_TOKEN, '<|system|>', '<|user|>', '<|assistant|>'];
const ACTION_PIECES = ['{"action":"', '"}', '["', '","', '"]', ...ACTIONS];
const BYTES = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);

/** A turn costs one token beside its text; an assistant's turn ends with the end token. */
const CHAT_TEMPLATE =
  "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}" +
  `{% if m.role == 'assistant' %}${END_TOKEN}{% endif %}{% endfor %}` +
  '{% if add_generation_prompt %}<|assistant|>{% endif %}';

export interface TokenizerOptions {
  /** Tokens in all, at most: specials, bytes, action pieces and characters. */
  size: number;
  /** Text whose characters are in whatever their frequency, such as that of the prompts. */
  required: string;
  /** Longest sequence of the model, tokens. */
  maxLength: number;
}

/** The contents of `tokenizer.json` and `tokenizer_config.json`. */
export interface TokenizerFiles {
  tokenizer: object;
  config: object;
  vocabSize: number;
  padId: number;
  endId: number;
}

/**
 * A tokenizer over the most frequent characters of `texts` (ties by code point). ASCII is left to the byte
 * tokens, which cost one token a character as well.
 */
export function buildTokenizer(texts: Iterable<string>, options: TokenizerOptions): TokenizerFiles {
  const added = [...SPECIAL_TOKENS, ...ACTION_PIECES];
  const room = options.size - BYTES.length - added.length;
  const characters = frequentCharacters(texts, options.required).slice(0, Math.max(0, room));
  const vocab = Object.fromEntries([...BYTES, ...characters].map((token, id) => [token, id]));
  const firstAdded = BYTES.length + characters.length;
  const addedTokens = added.map((content, i) => ({
    id: firstAdded + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: i < SPECIAL_TOKENS.length,
  }));
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: addedTokens,
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      decoder: { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, { type: 'Fuse' }] },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: true,
        ignore_merges: false,
        vocab,
        merges: [],
      },
    },
    config: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      eos_token: END_TOKEN,
      pad_token: PAD_TOKEN,
      clean_up_tokenization_spaces: false,
      model_max_length: options.maxLength,
      chat_template: CHAT_TEMPLATE,
    },
    vocabSize: firstAdded + added.length,
    padId: firstAdded,
    endId: firstAdded + SPECIAL_TOKENS.indexOf(END_TOKEN),
  };
}

/** Writes `tokenizer.json` and `tokenizer_config.json` into `folder`, which is made when absent. */
export function writeTokenizer(folder: string, files: TokenizerFiles): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'tokenizer.json'), `${JSON.stringify(files.tokenizer)}\n`);
  writeFileSync(join(folder, 'tokenizer_config.json'), `${JSON.stringify(files.config, null, 2)}\n`);
}

function frequentCharacters(texts: Iterable<string>, required: string): string[] {
  const counts = new Map<string, number>();
  for (const text of texts) for (const c of text) counts.set(c, (counts.get(c) ?? 0) + 1);
  for (const c of required) counts.set(c, Infinity);
  return [...counts]
    .filter(([c]) => c.codePointAt(0)! > 0x7f)
    .sort(([a, m], [b, n]) => (m === n ? a.codePointAt(0)! - b.codePointAt(0)! : n - m))
    .map(([c]) => c);
}
