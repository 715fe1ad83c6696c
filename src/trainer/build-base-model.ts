import type { Article, Query } from '../env/types.ts';

export interface BuildBaseModelOptions {
  articles: readonly Article[];
  /** Questions whose characters the tokenizer should know. */
  queries: readonly Query[];
  folder: string;
  size: 'tiny' | 'small';
  /** Pretraining tokens. */
  tokens: number;
  threads: number;
  seed: number;
  log: (line: string) => void;
}

/** Makes a base model folder in Hugging Face layout and pretrains it on the corpus text. */
export async function buildBaseModel(_options: BuildBaseModelOptions): Promise<void> {
  throw new Error('not yet');
}
