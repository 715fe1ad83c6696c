/** The files of a tokenizer in Hugging Face layout, as plain objects to be written as JSON. */
export interface TokenizerFiles {
  tokenizer: object;
  config: object;
  chatTemplate: string;
  vocabularySize: number;
  padId: number;
  endId: number;
}

export interface TokenizerOptions {
  /** Entries in all: specials, bytes, action pieces and characters. */
  size: number;
}

/** A character-level tokenizer over the most frequent characters of `texts`. */
export function buildTokenizer(_texts: Iterable<string>, _options?: Partial<TokenizerOptions>): TokenizerFiles {
  throw new Error('not yet');
}
