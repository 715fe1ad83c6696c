/**
 * The embedded second stage: how alike are an article and the *original* question, whatever the policy
 * has added to the search. The place that a cross-encoder takes later.
 *
 * score = alpha · (first-stage score / the list's best) + (1 − alpha) · cos(question, article), the cosine
 * of the two sets of telltale terms (pairs of Chinese characters, words), each term with the square root
 * of its idf: Σ idf over the shared terms / √(Σ idf of the question · Σ idf of the article). BM25's first
 * stage rewards long articles for every further match; the cosine asks how much of the article is about
 * the question.
 *
 * On the training questions of STARD (reconstructed corpus, 785, recall@10 of the 30 kept to 10, first
 * stage → alpha 0.7): question alone .489 → .495; with law and terms of a gold article at weight 0.5
 * .806 → .806, at 1 .832 → .835; with those of the nearest other question's gold article, so mostly wrong
 * ones, .519 → .531 and .473 → .496. Plain coverage of the question's terms gained less and lost up to
 * one point where the expansion was right; below 0.6 articles that only the expansion finds start to drop
 * out of the ten.
 */
import type { Corpus } from '../corpus.ts';
import type { Hit, Reranker } from '../types.ts';
import type { Bm25Index } from './bm25-index.ts';
import { telltaleTerms } from './terms.ts';

interface TermSet {
  /** Distinct telltale terms that the corpus knows. */
  terms: Int32Array;
  /** Σ idf over them. */
  weight: number;
}

/**
 * The reranker over the articles of `index`, whose vocabulary and idf it shares. `alpha` in [0, 1]; 1
 * keeps the first stage's order. Ties by id. Term sets of articles are kept once computed (about 0.3 kB
 * each). Throws for a hit that the corpus lacks.
 */
export function createLexicalReranker(
  corpus: Pick<Corpus, 'byId'>,
  index: Bm25Index,
  { alpha }: { alpha: number },
): Reranker {
  const setOf = (text: string): TermSet => {
    const terms = Int32Array.from(telltaleTerms(text), (term) => index.vocabulary.numberOf(term)).filter(
      (t) => t >= 0,
    );
    return { terms, weight: terms.reduce((sum, term) => sum + index.idf[term]!, 0) };
  };
  const kept = new Map<string, TermSet>();
  const articleSet = (id: string): TermSet => {
    let set = kept.get(id);
    if (!set) {
      const article = corpus.byId.get(id);
      if (!article) throw new Error(`article "${id}" is not in the corpus that the reranker reads`);
      // A line break keeps title and text from forming a pair across their border.
      set = setOf(`${article.title}\n${article.text}`);
      kept.set(id, set);
    }
    return set;
  };
  return {
    async rerank(original, hits, keep) {
      const question = setOf(original);
      const asked = new Set(question.terms);
      const best = hits.reduce((top, hit) => Math.max(top, hit.score), 0) || 1;
      const rescored = hits.map(({ id, score }): Hit => {
        const article = articleSet(id);
        let shared = 0;
        for (const term of article.terms) if (asked.has(term)) shared += index.idf[term]!;
        const cosine = shared / (Math.sqrt(question.weight * article.weight) || 1);
        return { id, score: (alpha * score) / best + (1 - alpha) * cosine };
      });
      return rescored.sort(byScoreThenId).slice(0, keep);
    },
  };
}

/** The order of every result list: higher score first, ties by id. */
export function byScoreThenId(a: Hit, b: Hit): number {
  return b.score - a.score || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}
