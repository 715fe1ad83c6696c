/**
 * Hybrid first stage: BM25 and the cosine of embeddings, fused. Both are brought to [0, 1] over the whole corpus, BM25
 * by its best score, cosines from the least to the greatest (Legal-R1's code fuses the same way, 15 to 10), and added
 * by weight.
 */
import type { Corpus } from '../corpus.ts';
import type { Retriever } from '../types.ts';
import type { Bm25Retriever } from './bm25.ts';
import { topHits } from './bm25-index.ts';

/** Vectors of texts, all of one length, in order. Rejects when it cannot give them. */
export interface Embedder {
  name: string;
  embed(texts: readonly string[]): Promise<Float32Array[]>;
}

export interface HybridOptions {
  lexical: Bm25Retriever;
  embedder: Embedder;
  /** Vectors of `lexical.index.ids`, in that order; asked for once, at the first search. */
  vectors: () => Promise<Float32Array[]>;
  /** Share of the embeddings, [0, 1]; 0 is BM25 alone. */
  weight: number;
}

/** Questions whose vectors are kept: the members and rounds of one step ask much the same. */
const KEPT_QUERIES = 1024;

/** The text of an article that is embedded. */
export const embeddedText = ({ title, text }: Corpus['articles'][number]): string => `${title}\n${text}`;

/** Searches the rewrite in both; what the corpus knows is judged by its words. Ties by id. */
export function createHybridRetriever({ lexical, embedder, vectors, weight }: HybridOptions): Retriever {
  const kept = new Map<string, Promise<Float32Array>>();
  let documents: Promise<Float32Array[]> | null = null;

  const vectorOf = (query: string): Promise<Float32Array> => {
    const found = kept.get(query);
    if (found) return found;
    const asked = embedder.embed([query]).then(([vector]) => unit(vector!));
    kept.set(query, asked);
    // A failure is for those who wait for it, not for later ones.
    asked.catch(() => kept.delete(query));
    if (kept.size > KEPT_QUERIES) kept.delete(kept.keys().next().value!);
    return asked;
  };

  return {
    unknownTermShare: (text) => lexical.unknownTermShare(text),
    async search(request, k) {
      documents ??= vectors().then((all) => all.map(unit));
      documents.catch(() => {
        documents = null;
      });
      const [all, query] = await Promise.all([documents, vectorOf(request.rewrite)]);
      const scores = fuse(lexical.scores(request), cosines(all, query), weight);
      return topHits(lexical.index, scores, k);
    },
  };
}

/** (1 − weight) · lexical / best + weight · (cosine − least) / (greatest − least), `[documents]`. */
export function fuse(lexical: Float32Array, cosine: Float32Array, weight: number): Float32Array {
  const best = lexical.reduce((most, score) => Math.max(most, score), 0);
  let [least, greatest] = [Infinity, -Infinity];
  for (const value of cosine) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  const range = greatest - least;
  return lexical.map((score, d) => {
    const words = best === 0 ? 0 : score / best;
    const meaning = range > 0 ? (cosine[d]! - least) / range : 0;
    return (1 - weight) * words + weight * meaning;
  });
}

function cosines(documents: readonly Float32Array[], query: Float32Array): Float32Array {
  return Float32Array.from(documents, (vector, d) => {
    if (vector.length !== query.length)
      throw new Error(`document ${d} has ${vector.length} dimensions, the query ${query.length}`);
    let dot = 0;
    for (let i = 0; i < query.length; i++) dot += vector[i]! * query[i]!;
    return dot;
  });
}

function unit(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  if (!Number.isFinite(norm)) throw new Error('an embedding is not finite');
  return norm === 0 ? vector : vector.map((x) => x / norm);
}
