import { findWords, type NgramCriteria } from './ngrams.ts';
import { countSegments } from './segment.ts';
import type { Article } from './types.ts';

/**
 * The vocabulary of a corpus of statutes: which strings are terms, and which terms tell an article apart.
 * Terms are runs of 2 to `maxLength` Chinese characters; text in other scripts has none.
 */
export interface TermTable {
  /** The article's `n` best terms, best first, none within another. Unknown ids have none. */
  articleTerms(id: string, n: number): string[];
  /** The terms that stand in `text`, ranked and pruned in the same way. */
  termsIn(text: string, n: number): string[];
  /** ln(articles / articles that contain the term), or undefined for what is no term. */
  idf(term: string): number | undefined;
  readonly size: number;
}

/**
 * Criteria by corpus size in Chinese characters. A term must occur `minCount` times; entropy of three
 * occurrences exceeds 0.8 only when all three neighbours differ, and of two (small corpora) exceeds 0.6
 * only when both do. PMI of 1.4 nats is 2 bits.
 */
function defaultCriteria(characters: number): NgramCriteria {
  return characters < 500_000
    ? { minCount: 2, minPmi: 1.4, minEntropy: 0.6, minPieceShare: 0.4, maxLength: 5 }
    : { minCount: 3, minPmi: 1.4, minEntropy: 0.8, minPieceShare: 0.4, maxLength: 5 };
}

/** Particles, conjunctions and suffixes that cling to a word's start or end without being part of it. */
const CLINGS_BEFORE = new Set(
  '和或与及在于由从对将被把之其该各是为以应可并但而则若如等向按经至自每某本就人权时后前内',
);
const CLINGS_AFTER = new Set('和或与及在于由从对将被把之其该各是为以应可并但而则若如等向按经至就时后前内');
/** So many occurrences as a piece of the segmentation are enough, whatever their share (消费者 in 消费者权益). */
const ENOUGH_PIECES = 10;

/** Never a term: a particle or a conjunction inside, a cut conjunction, a stray number, a reference to an article. */
const NO_TERM = new RegExp(
  [
    '[的了第]',
    '^(?:不得|应当|可以).',
    '.(?:不得|应当|可以)$',
    '..[和或与及在]..',
    '^(?:[及者]|和(?!解)..|等..|为..|或者|但是|以及|并且|由于|之间|以下|下列|上述|依照|有关)',
    '(?:或者?|..[和及一二三四五六七八九十]|以下|下列)$',
    '[一二三四五六七八九十百千][条款项]',
  ].join('|'),
);

/**
 * Mines the terms of `articles`. Scores of a term within an article: √tf · idf · √length. Time and memory
 * are linear but for sorting; see ngrams.ts.
 */
export function mineTerms(articles: readonly Article[], options: Partial<NgramCriteria> = {}): TermTable {
  const { codes, starts, alphabet, characters } = encode(articles);
  const criteria = { ...defaultCriteria(characters), ...options };
  const found = new Map<string, number>();
  const levels = findWords(codes, alphabet, criteria);
  const pieces = countSegments(codes, levels);
  levels.forEach(({ length, ids, counts, first }, l) => {
    const articlesWith = countArticles(ids, starts, first.length);
    for (let id = 0; id < first.length; id++) {
      const enough = Math.min(criteria.minPieceShare * counts[id]!, ENOUGH_PIECES);
      if (first[id]! < 0 || pieces[l]![id]! < enough) continue;
      const term = textAt(articles, starts, first[id]!, length);
      if (!NO_TERM.test(term)) found.set(term, Math.log(articles.length / articlesWith[id]!));
    }
  });
  const idf = new Map([...found].filter(([term]) => !clings(term, found)));
  const textOf = new Map(articles.map((article) => [article.id, article.text]));
  const termsIn = (text: string, n: number): string[] => bestTerms(text, n, idf, criteria.maxLength);
  return {
    articleTerms: (id, n) => termsIn(textOf.get(id) ?? '', n),
    termsIn,
    idf: (term) => idf.get(term),
    size: idf.size,
  };
}

/** Whether `term` is another term with one clinging character: 自借款人, 基地和; but not 自然人, 应当. */
function clings(term: string, terms: ReadonlyMap<string, number>): boolean {
  return (
    (CLINGS_BEFORE.has(term[0]!) && terms.has(term.slice(1))) ||
    (CLINGS_AFTER.has(term[term.length - 1]!) && terms.has(term.slice(0, -1)))
  );
}

/** All texts as one array of character codes, each text followed by a 0; only Chinese characters count. */
function encode(articles: readonly Article[]) {
  const codeOf = new Map<number, number>();
  const starts = new Int32Array(articles.length + 1);
  let size = 0;
  articles.forEach((article, i) => {
    starts[i] = size;
    size += article.text.length + 1;
  });
  starts[articles.length] = size;
  const codes = new Int32Array(size);
  let characters = 0;
  articles.forEach(({ text }, i) => {
    for (let j = 0; j < text.length; j++) {
      const unit = text.charCodeAt(j);
      if (unit < 0x3400 || unit > 0x9fff) continue;
      let code = codeOf.get(unit);
      if (code === undefined) {
        code = codeOf.size + 1;
        codeOf.set(unit, code);
      }
      codes[starts[i]! + j] = code;
      characters++;
    }
  });
  return { codes, starts, alphabet: codeOf.size + 1, characters };
}

function countArticles(ids: Int32Array, starts: Int32Array, size: number): Int32Array {
  const counts = new Int32Array(size);
  const last = new Int32Array(size).fill(-1);
  for (let article = 0; article + 1 < starts.length; article++) {
    for (let i = starts[article]!; i < starts[article + 1]!; i++) {
      const id = ids[i]!;
      if (id < 0 || last[id] === article) continue;
      last[id] = article;
      counts[id] = counts[id]! + 1;
    }
  }
  return counts;
}

function textAt(articles: readonly Article[], starts: Int32Array, position: number, length: number): string {
  let low = 0;
  let high = articles.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= position) low = middle;
    else high = middle - 1;
  }
  const from = position - starts[low]!;
  return articles[low]!.text.slice(from, from + length);
}

function bestTerms(text: string, n: number, idf: ReadonlyMap<string, number>, maxLength: number): string[] {
  const counts = new Map<string, number>();
  for (let i = 0; i < text.length; i++) {
    for (let length = 2; length <= maxLength && i + length <= text.length; length++) {
      const term = text.slice(i, i + length);
      if (idf.has(term)) counts.set(term, (counts.get(term) ?? 0) + 1);
    }
  }
  const scored = [...counts].map(([term, count]) => ({
    term,
    score: Math.sqrt(count * term.length) * idf.get(term)!,
  }));
  scored.sort((a, b) => b.score - a.score || (a.term < b.term ? -1 : 1));
  const best: string[] = [];
  for (const { term } of scored) {
    if (best.length === n) break;
    if (!best.some((chosen) => chosen.includes(term) || term.includes(chosen))) best.push(term);
  }
  return best;
}
