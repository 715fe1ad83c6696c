/**
 * The BM25 index: every score a term can add to an article, computed once, in compressed sparse rows.
 * Pure and synchronous; the retriever of the environment stands on it (`bm25.ts`).
 *
 * score(q, d) = Σ_t w_q(t) · idf(t) · tf(t,d) · (k1 + 1) / (tf(t,d) + k1 · (1 − b + b · |d| / mean |d|)),
 * idf(t) = ln(1 + (N − df + ½) / (df + ½)), after Robertson and Zaragoza, "The Probabilistic Relevance
 * Framework: BM25 and Beyond" (2009), with the always positive idf that Lucene uses. The two fields of an
 * article are counted as one text: title, then body.
 */
import type { Article, Hit } from '../types.ts';
import { createVocabulary, type Vocabulary } from './vocabulary.ts';

export interface Bm25Settings {
  /** Saturation of the term frequency, ≥ 0. */
  k1: number;
  /** Share of length normalisation, in [0, 1]. */
  b: number;
}

export interface Bm25Index {
  settings: Bm25Settings;
  /** Article ids in ascending order: a document is a position in it, so ties by id are ties by position. */
  ids: string[];
  documentOf: Map<string, number>;
  vocabulary: Vocabulary;
  /** `[terms]`, natural logarithm. */
  idf: Float64Array;
  /** Postings of term t: positions `starts[t]` to `starts[t + 1]` of the two arrays below. */
  starts: Uint32Array;
  /** Documents, ascending within a term. */
  documents: Uint32Array;
  /** What one occurrence of the term in a question adds to the document's score. */
  impacts: Float32Array;
}

/** A weighted bag of term numbers (-1, an unknown term, is never in it). */
export type Bag = Map<number, number>;

/** Builds the index over title and text of distinct articles. */
export function buildBm25Index(articles: readonly Article[], settings: Bm25Settings): Bm25Index {
  const sorted = [...articles].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const counts = countTerms(sorted);
  const { vocabulary, frequencies, lengths, size } = counts;
  const terms = vocabulary.size;
  const starts = new Uint32Array(terms + 1);
  for (let i = 0; i < size; i++) starts[counts.terms[i]! + 1]!++;
  for (let t = 0; t < terms; t++) starts[t + 1]! += starts[t]!;
  const idf = new Float64Array(terms);
  for (let t = 0; t < terms; t++) {
    const df = starts[t + 1]! - starts[t]!;
    idf[t] = Math.log(1 + (sorted.length - df + 0.5) / (df + 0.5));
  }
  const mean = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, sorted.length);
  const next = starts.slice(0, terms);
  const documents = new Uint32Array(size);
  const impacts = new Float32Array(size);
  const { k1, b } = settings;
  for (let d = 0, i = 0; d < sorted.length; d++) {
    const norm = k1 * (1 - b + (b * lengths[d]!) / (mean || 1));
    for (; i < counts.ends[d]!; i++) {
      const t = counts.terms[i]!;
      const at = next[t]!++;
      documents[at] = d;
      impacts[at] = (idf[t]! * frequencies[i]! * (k1 + 1)) / (frequencies[i]! + norm);
    }
  }
  const ids = sorted.map((article) => article.id);
  const documentOf = new Map(ids.map((id, d) => [id, d]));
  return { settings, ids, documentOf, vocabulary, idf, starts, documents, impacts };
}

/** Distinct (document, term) pairs in document order with their frequencies; `ends[d]`: one past d's last. */
function countTerms(articles: readonly Article[]) {
  const vocabulary = createVocabulary();
  let capacity = 1 << 16;
  let terms = new Uint32Array(capacity);
  let frequencies = new Uint32Array(capacity);
  let size = 0;
  let slots = new Int32Array(1 << 12).fill(-1);
  const ends = new Uint32Array(articles.length);
  const lengths = new Float64Array(articles.length);
  for (let d = 0; d < articles.length; d++) {
    const first = size;
    let length = 0;
    const count = (term: number): void => {
      length++;
      if (term >= slots.length) slots = grown(slots, new Int32Array(slots.length * 2).fill(-1));
      // A slot before `first` belongs to an earlier document: this term is new here.
      const slot = slots[term]!;
      if (slot >= first) frequencies[slot]!++;
      else {
        if (size === capacity) {
          capacity *= 2;
          terms = grown(terms, new Uint32Array(capacity));
          frequencies = grown(frequencies, new Uint32Array(capacity));
        }
        slots[term] = size;
        terms[size] = term;
        frequencies[size++] = 1;
      }
    };
    vocabulary.visit(articles[d]!.title, count);
    vocabulary.visit(articles[d]!.text, count);
    ends[d] = size;
    lengths[d] = length;
  }
  return { vocabulary, terms, frequencies, size, ends, lengths };
}

function grown<T extends Int32Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

/** Adds `weight` to the bag for every occurrence of a known term in the text. */
export function addCounts(bag: Bag, index: Bm25Index, text: string, weight: number): void {
  for (const term of index.vocabulary.numbersOf(text)) {
    if (term >= 0) bag.set(term, (bag.get(term) ?? 0) + weight);
  }
}

/** Adds `weight` to the bag for every *distinct* known term of the text, however often it occurs. */
export function addDistinct(bag: Bag, index: Bm25Index, text: string, weight: number): void {
  for (const term of new Set(index.vocabulary.numbersOf(text))) {
    if (term >= 0) bag.set(term, (bag.get(term) ?? 0) + weight);
  }
}

/** Adds the bag's score of every document to `scores` `[documents]`, term by term in the bag's order. */
export function addScores(scores: Float32Array, index: Bm25Index, bag: Bag): void {
  const { starts, documents, impacts } = index;
  for (const [term, weight] of bag) {
    const end = starts[term + 1]!;
    for (let i = starts[term]!; i < end; i++) scores[documents[i]!]! += weight * impacts[i]!;
  }
}

/** The score of every document for a bag `[documents]`; 0 where they share no term. */
export function scoreAll(index: Bm25Index, bag: Bag): Float32Array {
  const scores = new Float32Array(index.ids.length);
  addScores(scores, index, bag);
  return scores;
}

/**
 * The `k` best documents with a score above 0, best first, ties by document. A heap of k keeps the worst
 * kept on top, so most documents cost one comparison.
 */
export function topDocuments(scores: Float32Array, k: number): number[] {
  const heap: number[] = [];
  /** a ranks below b */
  const below = (a: number, b: number) => scores[a]! < scores[b]! || (scores[a] === scores[b] && a > b);
  const sink = (size: number): void => {
    for (let at = 0; ; ) {
      let child = 2 * at + 1;
      if (child >= size) return;
      if (child + 1 < size && below(heap[child + 1]!, heap[child]!)) child++;
      if (!below(heap[child]!, heap[at]!)) return;
      [heap[at], heap[child]] = [heap[child]!, heap[at]!];
      at = child;
    }
  };
  let bar = 0;
  for (let d = 0; d < scores.length; d++) {
    // Documents come in ascending order, so a later one with an equal score ranks below.
    if (scores[d]! <= bar) continue;
    if (heap.length < k) {
      heap.push(d);
      for (let at = heap.length - 1; at > 0; ) {
        const parent = (at - 1) >> 1;
        if (!below(heap[at]!, heap[parent]!)) break;
        [heap[at], heap[parent]] = [heap[parent]!, heap[at]!];
        at = parent;
      }
    } else {
      heap[0] = d;
      sink(k);
    }
    if (heap.length === k) bar = scores[heap[0]!]!;
  }
  return heap.sort((a, b) => scores[b]! - scores[a]! || a - b);
}

/** The documents of `topDocuments` as hits. */
export function topHits(index: Bm25Index, scores: Float32Array, k: number): Hit[] {
  if (k < 1) return [];
  return topDocuments(scores, k).map((d) => ({ id: index.ids[d]!, score: scores[d]! }));
}

/**
 * The rank of each article (from 1, ties by id) by counting the documents above it: no sort, so the ranks
 * of a few gold articles cost one pass. Throws for an id that is not indexed.
 */
export function ranksOf(index: Bm25Index, scores: Float32Array, ids: readonly string[]): number[] {
  return ids.map((id) => {
    const document = index.documentOf.get(id);
    if (document === undefined) throw new Error(`article "${id}" is not in the index`);
    const score = scores[document]!;
    let above = 0;
    for (let d = 0; d < scores.length; d++) {
      if (scores[d]! > score || (scores[d] === score && d < document)) above++;
    }
    return above + 1;
  });
}
