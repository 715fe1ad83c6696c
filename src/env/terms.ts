import type { Article } from './types.ts';
export { lawShortName } from './law-name.ts';

export interface TermOptions {
  /** Least number of occurrences of a term in the corpus. */
  minCount: number;
  /** Least pointwise mutual information (nats) over the term's weakest split. */
  minPmi: number;
  /** Least entropy (nats) of the characters left and right of the term, the smaller side. */
  minEntropy: number;
  /** Longest term, characters. */
  maxLength: number;
}

export interface TermTable {
  /** The article's `n` best terms, best first, none within another. */
  articleTerms(id: string, n: number): string[];
  /** Terms of the table that stand in `text`, best first (tf · idf · length as for an article), none within another. */
  termsIn(text: string, n: number): string[];
  /** Natural log of articles / articles with the term; undefined for what is no term. */
  idf(term: string): number | undefined;
  readonly size: number;
  readonly options: TermOptions;
}

export function mineTerms(_articles: readonly Article[], _options?: Partial<TermOptions>): TermTable {
  throw new Error('not yet');
}
