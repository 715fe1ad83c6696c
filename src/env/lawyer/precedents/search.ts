/** Search of precedents: BM25 over their facts, then authority, diversity of sentence, and a condensed text. */
import { corpusOf } from '../../corpus.ts';
import { createBm25Retriever } from '../../retrieval/bm25.ts';
import type { Evidence, PrecedentSearch } from '../types.ts';
import type { Condenser } from './condense.ts';
import { authority } from './court-level.ts';
import type { Precedent, PrecedentSet } from './precedent-set.ts';
import { choosePrecedents, type PrecedentWeights } from './rank.ts';

export interface PrecedentSearchOptions extends PrecedentWeights {
  set: PrecedentSet;
  condenser: Condenser;
  /** Of the index. */
  k1: number;
  b: number;
  /** Cases of the first stage that the second one chooses from, ≥ k. */
  candidates: number;
  /** Characters of a condensed case. */
  chars: number;
}

/** 犯盗窃罪 of the judgment: the offences, each once. */
export function chargesOf({ judgment }: Pick<Precedent, 'judgment'>): string[] {
  const at = judgment.lastIndexOf('判决如下');
  const named = judgment.slice(Math.max(0, at)).matchAll(/犯([^，。；、犯]{2,20}?罪)/gu);
  return [...new Set([...named].map(([, charge]) => charge!))];
}

export function createPrecedentSearch(options: PrecedentSearchOptions): PrecedentSearch {
  const { set, condenser, candidates, chars, k1, b } = options;
  const byId = new Map(set.cases.map((one) => [one.id, one]));
  const corpus = corpusOf(
    set.cases.map((one) => ({ id: one.id, title: chargesOf(one).join(' '), text: one.fact })),
  );
  const retriever = createBm25Retriever(corpus, { k1, b, anchor: { original: 0, rewrite: 1 } });
  return {
    unknownTermShare: (text) => retriever.unknownTermShare(text),
    async search({ original, query, charges, exclude }) {
      const rewrite = [query, ...charges].join(' ');
      const hits = await retriever.search({ original, rewrite }, candidates + exclude.length);
      const found = hits
        .filter(({ id }) => !exclude.includes(id))
        .slice(0, candidates)
        .map(({ id, score }) => {
          const { level, psi } = byId.get(id)!;
          return { id, relevance: score, authority: authority(level), psi };
        });
      const chosen = choosePrecedents(found, options).map((id) => byId.get(id)!);
      return Promise.all(
        chosen.map(
          async (one, rank): Promise<Evidence> => ({
            source: 'precedent',
            id: one.id,
            rank,
            title: chargesOf(one).join('、') || '判决',
            text: await condenser.condense(one, chars),
            articles: one.articles,
          }),
        ),
      );
    },
  };
}
