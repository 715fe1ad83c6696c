/** Statute search with an intent: first stage, law in force on the day, rerank for the intent. */
import type { Corpus } from '../corpus.ts';
import type { Article, Retriever } from '../types.ts';
import type { IntentReranker } from './intent-rerank.ts';
import type { StatuteSearch } from './types.ts';

export interface StatuteSearchOptions {
  retriever: Retriever;
  corpus: Pick<Corpus, 'articles' | 'byId'>;
  reranker: IntentReranker;
  /** Articles of the first stage that the second one sees, and those that it keeps, ≥ 1. */
  topK: number;
  keep: number;
}

/** Whether an article was in force on a day (`YYYY-MM-DD`), the first and the last day included. */
export const inForce = ({ from, to }: Pick<Article, 'from' | 'to'>, date: string): boolean =>
  (from === undefined || from <= date) && (to === undefined || date <= to);

/**
 * The search. Where a date is given, articles not in force then leave before the cut to `topK`, so that they
 * take no place of those that were.
 */
export function createStatuteSearch(options: StatuteSearchOptions): StatuteSearch {
  const { retriever, corpus, reranker, topK, keep } = options;
  const articleOf = (id: string): Article => corpus.byId.get(id)!;
  const isDated = corpus.articles.some(({ from, to }) => from !== undefined || to !== undefined);
  return {
    unknownTermShare: (text) => retriever.unknownTermShare(text),
    async search({ original, query, intent, date }) {
      const wanted = date !== null && isDated ? corpus.articles.length : topK;
      const hits = await retriever.search({ original, rewrite: query }, wanted);
      const candidates = hits
        .map(({ id, score }) => ({ article: articleOf(id), score }))
        .filter(({ article }) => date === null || inForce(article, date))
        .slice(0, topK);
      const kept = await reranker.rerank({ original, query, intent }, candidates, keep);
      return kept.map(({ article: { id, title, text } }, rank) => ({
        source: 'statute',
        id,
        rank,
        title,
        text,
        articles: [id],
      }));
    },
  };
}
