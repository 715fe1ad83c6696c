/** The embedded retriever: BM25 over the question and, more lightly, over what the policy added to it. */
import type { Corpus } from '../corpus.ts';
import type { Retriever, SearchRequest } from '../types.ts';
import {
  addCounts,
  addDistinct,
  addScores,
  type Bag,
  type Bm25Index,
  type Bm25Settings,
  buildBm25Index,
  ranksOf,
  scoreAll,
  topHits,
} from './bm25-index.ts';
import { boostNamedLaw, documentsByLaw } from './named-law.ts';
import { telltaleTerms } from './terms.ts';

export interface Bm25Options extends Bm25Settings {
  /** Weight of each occurrence of the original question's terms, and of each distinct rewrite term. */
  anchor: { original: number; rewrite: number };
  /** What articles of the law that a rewrite names gain, as a share of the best score; default 0. */
  lawBoost?: number;
}

/** A BM25 retriever, with the synchronous scorer that rank rewards, baselines and studies need. */
export interface Bm25Retriever extends Retriever {
  readonly index: Bm25Index;
  /** Scores of all documents (positions of `index.ids`), `[documents]`. */
  scores(request: SearchRequest): Float32Array;
  /** Ranks from 1 of the given articles, ties by id. */
  ranksOf(request: SearchRequest, ids: readonly string[]): number[];
}

/** Questions whose scores are kept: the members and rounds of one step ask about the same few. */
const KEPT_QUESTIONS = 64;

/**
 * The retriever over a corpus (or an index already built with the same k1 and b).
 *
 * `rewrite === original` searches the question as it is. Otherwise the bag is the question's term counts
 * times `anchor.original` plus every distinct term of the rewrite once at `anchor.rewrite`: a policy that
 * repeats itself gains nothing by it. `anchor.original` 0 searches the rewrite alone. With `lawBoost` a rewrite
 * that begins with a law's name and a colon prefers that law (named-law.ts).
 */
export function createBm25Retriever(
  corpus: Pick<Corpus, 'articles'>,
  { k1, b, anchor, lawBoost = 0 }: Bm25Options,
  index: Bm25Index = buildBm25Index(corpus.articles, { k1, b }),
): Bm25Retriever {
  const kept = new Map<string, Float32Array>();
  const questionScores = (question: string): Float32Array => {
    let scores = kept.get(question);
    if (scores) kept.delete(question);
    else {
      const bag: Bag = new Map();
      addCounts(bag, index, question, 1);
      scores = scoreAll(index, bag);
    }
    kept.set(question, scores);
    if (kept.size > KEPT_QUESTIONS) kept.delete(kept.keys().next().value!);
    return scores;
  };
  const laws = lawBoost === 0 ? null : documentsByLaw(corpus, index.documentOf);
  const scratch = new Float32Array(index.ids.length);
  /** Valid until the next call; not to be written to. */
  const scores = ({ original, rewrite }: SearchRequest): Float32Array => {
    if (rewrite === original) return questionScores(original);
    const all = scratch;
    if (anchor.original === 0) all.fill(0);
    else {
      const base = questionScores(original);
      if (anchor.original === 1) all.set(base);
      else for (let d = 0; d < all.length; d++) all[d] = anchor.original * base[d]!;
    }
    const bag: Bag = new Map();
    addDistinct(bag, index, rewrite, anchor.rewrite);
    addScores(all, index, bag);
    if (laws) boostNamedLaw(all, rewrite, laws, lawBoost);
    return all;
  };
  return {
    index,
    scores: (request) => scores(request).slice(),
    ranksOf: (request, ids) => ranksOf(index, scores(request), ids),
    search: async (request, k) => topHits(index, scores(request), k),
    unknownTermShare: (text) => unknownTermShare(index, text),
  };
}

/**
 * Share of the text's distinct telltale terms (pairs of Chinese characters, words, lone characters; not
 * numbers) that stand in no article, in [0, 1]; 1 for a text without any. Made-up wording has most of its
 * character pairs unknown, real legal wording almost none: see the tests for both on a real corpus.
 */
export function unknownTermShare(index: Bm25Index, text: string): number {
  const terms = telltaleTerms(text);
  if (terms.length === 0) return 1;
  return terms.filter((term) => index.vocabulary.numberOf(term) < 0).length / terms.length;
}
