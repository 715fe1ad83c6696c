/**
 * What a rewriter that knew the gold articles would write: search lines of the form
 * `law short name：term term …`. Terms are the best of the article, those that the question already says
 * first, so that a policy learns to copy before it learns to add. Some terms are left out at random, so that it
 * learns which terms may be said rather than one fixed answer.
 */
import type { Random } from '../../base/random.ts';
import { lawKind, lawOf, lawShortName } from '../law-name.ts';
import type { TermTable } from '../terms.ts';
import type { Article } from '../types.ts';

/** What the targets are made from, prepared once for a corpus. */
export interface TargetSource {
  articles: ReadonlyMap<string, Article>;
  terms: TermTable;
  /** Name and terms of every judicial interpretation and procedural law of the corpus. */
  supports: Support[];
}

interface Support {
  law: string;
  terms: ReadonlySet<string>;
}

export interface TargetOptions {
  /** Most terms of a line, ≥ 1. */
  terms: number;
  /** Most of them taken from the question. */
  copied: number;
  /** Chance of each term to be left out, [0, 1). */
  dropout: number;
  /** Longest answer, characters; law name and first term stay however long they are. */
  maxChars: number;
}

export const DEFAULT_TARGETS: TargetOptions = { terms: 5, copied: 2, dropout: 0.15, maxChars: 44 };

/** Terms of an article that are considered at all. */
const CONSIDERED = 10;
/** A telling term's idf is at least this share of ln(articles): it stands in few of them. */
const TELLING_IDF = 0.4;
const MAX_SUBQUERIES = 3;
/** Characters that a decomposition may be longer for each further line. */
const MORE_FOR_SUBQUERIES = 6;
/** A supporting law is judged by at most so many of its terms: enough for its subject, flat in its length. */
const SUPPORT_TERMS = 400;

export function targetSource(articles: ReadonlyMap<string, Article>, terms: TermTable): TargetSource {
  const textByLaw = new Map<string, string[]>();
  for (const article of articles.values()) {
    const law = lawOf(article);
    if (lawKind(law) === 'other') continue;
    const texts = textByLaw.get(law);
    if (texts) texts.push(article.text);
    else textByLaw.set(law, [article.text]);
  }
  const supports = [...textByLaw].map(([law, texts]) => ({
    law: lawShortName(law),
    terms: new Set(terms.termsIn(texts.join('\n'), SUPPORT_TERMS)),
  }));
  return { articles, terms, supports };
}

/** The line of one role for one article: what `rewrite_single`, `rewrite_supplement` or `repair` should say. */
export function rewriteTarget(
  role: 'rewrite_single' | 'rewrite_supplement' | 'repair',
  gold: Article,
  question: string,
  source: TargetSource,
  random: Random,
  options: TargetOptions = DEFAULT_TARGETS,
): string {
  const { said, unsaid } = pickTerms(gold, question, source, random, options);
  const law = lawShortName(lawOf(gold));
  const { terms, copied, maxChars } = options;
  switch (role) {
    case 'rewrite_single':
      return line(law, said.slice(0, copied), unsaid, terms, gold, maxChars);
    case 'rewrite_supplement':
      return line('', [], unsaid.length > 0 ? unsaid : said, terms + 1, gold, maxChars);
    case 'repair':
      // Another wording of the same article: any of its terms, without regard to what was said.
      return line(law, [], random.shuffle([...said, ...unsaid]), terms, gold, maxChars);
  }
}

/** A JSON array with one line for each of up to three articles, as different as they come. */
export function decomposeTarget(
  golds: readonly Article[],
  question: string,
  source: TargetSource,
  random: Random,
  options: TargetOptions = DEFAULT_TARGETS,
): string {
  const chosen = spread(random.shuffle([...new Set(golds)]), MAX_SUBQUERIES, source);
  const perLine = chosen.length === 1 ? options.terms : 3;
  const maxChars = Math.floor((options.maxChars + MORE_FOR_SUBQUERIES * (chosen.length - 1)) / chosen.length);
  const lines = chosen.map((gold) => {
    const { said, unsaid } = pickTerms(gold, question, source, random, options);
    const name = lawShortName(lawOf(gold));
    const law = name.length > maxChars / 2 && chosen.length > 1 ? '' : name;
    return line(law, said.slice(0, options.copied), unsaid, perLine, gold, maxChars);
  });
  return JSON.stringify([...new Set(lines)]);
}

/** The first of the distinct articles, and up to `most` in all, each the one that shares the fewest terms with those before it. */
function spread(golds: readonly Article[], most: number, { terms }: TargetSource): Article[] {
  const termsOf = new Map(golds.map((gold) => [gold, terms.articleTerms(gold.id, CONSIDERED)]));
  const chosen = golds.slice(0, 1);
  const seen = new Set(termsOf.get(chosen[0]!));
  while (chosen.length < Math.min(most, golds.length)) {
    let next: Article | undefined;
    let fewest = Infinity;
    for (const gold of golds) {
      const shared = termsOf.get(gold)!.filter((term) => seen.has(term)).length;
      if (!chosen.includes(gold) && shared < fewest) {
        next = gold;
        fewest = shared;
      }
    }
    chosen.push(next!);
    for (const term of termsOf.get(next!)!) seen.add(term);
  }
  return chosen;
}

/** A gold in an interpretation or a procedural law, else the supporting law nearest to a gold, with its terms. */
export function supportTarget(
  golds: readonly Article[],
  question: string,
  source: TargetSource,
  random: Random,
  options: TargetOptions = DEFAULT_TARGETS,
): string {
  const supporting = golds.filter((gold) => lawKind(lawOf(gold)) !== 'other');
  if (supporting.length > 0) {
    const gold = supporting[random.int(supporting.length)]!;
    return rewriteTarget('rewrite_single', gold, question, source, random, options);
  }
  const gold = golds[random.int(golds.length)]!;
  const { said, unsaid } = pickTerms(gold, question, source, random, options);
  const law = nearestSupport([...said, ...unsaid], source)?.law ?? lawShortName(lawOf(gold));
  return line(law, said.slice(0, options.copied), unsaid, options.terms, gold, options.maxChars);
}

/** The supporting law that shares the most idf with `terms`; the first of equals. */
function nearestSupport(terms: readonly string[], source: TargetSource): Support | undefined {
  let best: Support | undefined;
  let bestScore = 0;
  for (const support of source.supports) {
    let score = 0;
    for (const term of terms) if (support.terms.has(term)) score += source.terms.idf(term)!;
    if (score > bestScore) {
      best = support;
      bestScore = score;
    }
  }
  return best;
}

/** The article's terms after dropout, best first: those that the question says, and the others. */
function pickTerms(
  gold: Article,
  question: string,
  source: TargetSource,
  random: Random,
  options: TargetOptions,
): { said: string[]; unsaid: string[] } {
  const all = tellingTerms(gold, source);
  const kept = all.filter(() => random.next() >= options.dropout);
  const terms = kept.length > 0 ? kept : all.slice(0, 1);
  return {
    said: terms.filter((term) => question.includes(term)),
    unsaid: terms.filter((term) => !question.includes(term)),
  };
}

/**
 * `law：t1 t2 …`, or the terms alone when `law` is empty: the best `most` that fit, the copied before the
 * added, each in the order of the article. Said in that order, a term follows from the one before it, and
 * a small model that has read the article has no reason to repeat itself.
 */
function line(
  law: string,
  copied: readonly string[],
  added: readonly string[],
  most: number,
  { text }: Article,
  maxChars: number,
): string {
  let room = maxChars - law.length;
  const fitting = new Set<string>();
  for (const term of [...copied, ...added]) {
    if (fitting.size === most) break;
    if (fitting.size > 0 && term.length + 1 > room) continue;
    fitting.add(term);
    room -= term.length + 1;
  }
  const inOrder = (terms: readonly string[]): string[] =>
    terms.filter((term) => fitting.has(term)).sort((a, b) => text.indexOf(a) - text.indexOf(b));
  const terms = [...inOrder(copied), ...inOrder(added)].join(' ');
  return law === '' || terms === '' ? law + terms : `${law}：${terms}`;
}

/**
 * The article's terms without those that very many articles have: 应当 or 当事人 would be the safest thing
 * to say about any article, and the least useful. At least two terms, where the article has them.
 */
function tellingTerms(gold: Article, { terms, articles }: TargetSource): string[] {
  const all = terms.articleTerms(gold.id, CONSIDERED);
  const least = TELLING_IDF * Math.log(articles.size);
  return all.filter((term, i) => i < 2 || terms.idf(term)! >= least);
}
