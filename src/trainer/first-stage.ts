/** The first stage of retrieval: BM25 alone, or together with embeddings, whose vectors of the corpus are kept. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { shortHash } from '../base/hash.ts';
import type { Config } from '../config/schema.ts';
import { readSafetensors, safetensorsChunks } from '../engine/safetensors.ts';
import type { Tensor } from '../engine/types.ts';
import type { Corpus } from '../env/corpus.ts';
import { type Bm25Retriever, createBm25Retriever } from '../env/retrieval/bm25.ts';
import { createHybridRetriever, type Embedder, embeddedText } from '../env/retrieval/hybrid.ts';
import type { Query, Retriever } from '../env/types.ts';
import { createEmbedder } from '../rollout/embedder.ts';
import { assistantKey, keptFolder } from './assistants.ts';
import type { EnvironmentOptions } from './environment.ts';

/** BM25 over the corpus as the section `retrieval` says. */
export function lexicalStage(
  { retrieval: { k1, b, anchor, lawBoost } }: Config,
  corpus: Corpus,
  { rewriteWeight, like }: Pick<EnvironmentOptions, 'rewriteWeight' | 'like'>,
): Bm25Retriever {
  const weights = { ...anchor, ...(rewriteWeight === undefined ? {} : { rewrite: rewriteWeight }) };
  return createBm25Retriever(corpus, { k1, b, anchor: weights, lawBoost }, like?.retriever.index);
}

/**
 * By gold article its best rank, from 0, in the whole corpus over several searches for one question; null where there
 * is no search.
 */
export function bestGoldRanks(
  { query: original, gold }: Pick<Query, 'query' | 'gold'>,
  searches: readonly string[],
  retriever: Bm25Retriever,
): (number | null)[] {
  const ranks = [...new Set(searches)].map((rewrite) => retriever.ranksOf({ original, rewrite }, gold));
  return gold.map((_, g) => (ranks.length === 0 ? null : Math.min(...ranks.map((of) => of[g]!)) - 1));
}

/** `lexical` alone, or together with the embeddings that the configuration names. */
export function firstStage(
  config: Config,
  corpus: Corpus,
  lexical: Bm25Retriever,
  say: (line: string) => void,
): Retriever {
  const { embeddings } = config.retrieval;
  if (!embeddings) return lexical;
  const { weight, apiKeyEnv, ...settings } = embeddings;
  const apiKey = assistantKey('retrieval.embeddings', apiKeyEnv);
  const embedder = createEmbedder({ ...settings, apiKey });
  const path = join(keptFolder(config), `vectors-${shortHash([embedder.name, corpus.hash])}.safetensors`);
  const texts = lexical.index.ids.map((id) => embeddedText(corpus.byId.get(id)!));
  return createHybridRetriever({
    lexical,
    embedder,
    weight,
    vectors: () => keptVectors(path, embedder, texts, say),
  });
}

/** The vectors of the texts, from the file where it holds so many, else asked for and kept. A damaged file is told. */
async function keptVectors(
  path: string,
  embedder: Embedder,
  texts: readonly string[],
  say: (line: string) => void,
): Promise<Float32Array[]> {
  const kept = readVectors(path, say);
  if (kept?.shape.length === 2 && kept.shape[0] === texts.length && kept.data.every(Number.isFinite)) {
    const [, width] = kept.shape;
    return texts.map((_, d) => kept.data.subarray(d * width!, (d + 1) * width!));
  }
  const vectors = await embedder.embed(texts);
  const width = vectors[0]!.length;
  const data = new Float32Array(texts.length * width);
  for (const [d, vector] of vectors.entries()) data.set(vector, d * width);
  await mkdir(dirname(path), { recursive: true });
  const tensors = new Map([['vectors', { shape: [texts.length, width], data }]]);
  await writeFileAtomic(path, safetensorsChunks(tensors, { dtype: 'F32' }));
  return vectors;
}

function readVectors(path: string, say: (line: string) => void): Tensor | undefined {
  if (!existsSync(path)) return undefined;
  try {
    return readSafetensors(path).tensors.get('vectors');
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    say(`${path} holds no vectors (${error.what}): asked for again`);
    return undefined;
  }
}
