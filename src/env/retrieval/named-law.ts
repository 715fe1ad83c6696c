/**
 * Search within a named law, softly: a query of the form `民法典：押金 返还` (a law's name, a colon, the terms)
 * means that law's articles first. The name's characters alone say little to BM25, which finds them in every
 * article that cites the law.
 */
import type { Corpus } from '../corpus.ts';
import { lawOf, lawShortName } from '../law-name.ts';

/** Documents (positions of an index) by the name of their law, short or full. */
export type LawDocuments = ReadonlyMap<string, readonly number[]>;

export function documentsByLaw(
  { articles }: Pick<Corpus, 'articles'>,
  documentOf: ReadonlyMap<string, number>,
): LawDocuments {
  const byLaw = new Map<string, number[]>();
  for (const article of articles) {
    const law = lawOf(article);
    for (const name of new Set([law, lawShortName(law)])) {
      const documents = byLaw.get(name);
      if (documents) documents.push(documentOf.get(article.id)!);
      else byLaw.set(name, [documentOf.get(article.id)!]);
    }
  }
  return byLaw;
}

/** The law that a query names before its first colon, as it is written there; null for none. */
export function namedLaw(query: string): string | null {
  const [, name] = /^\s*《?([^：:《》]+?)》?\s*[：:]/.exec(query) ?? [];
  return name ?? null;
}

/** Adds `boost` × the best score to every document of the law that the query names, where the corpus has it. */
export function boostNamedLaw(
  scores: Float32Array,
  query: string,
  documents: LawDocuments,
  boost: number,
): void {
  const name = namedLaw(query);
  const named = name === null ? undefined : documents.get(name);
  if (!named) return;
  const best = scores.reduce((most, score) => Math.max(most, score), 0);
  for (const d of named) scores[d]! += boost * best;
}
