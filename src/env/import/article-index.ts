/** Articles by law and number, as questions cite them: 刑法第264、353条, 《民法典》第五百六十三条, 刑法第一百三十三条之一. */
import type { Corpus } from '../corpus.ts';
import { lawOf, lawShortName } from '../law-name.ts';
import { NUMERAL, readNumeral } from '../lawyer/precedents/chinese-numerals.ts';

export interface Citation {
  /** As written; empty when none stands before the number. */
  law: string;
  /** `264`, `133-1` for 第一百三十三条之一. */
  number: string;
}

export interface ArticleIndex {
  /** The id of a cited article; null when the corpus has it not, or more than once. */
  find(citation: Citation): string | null;
}

const NUMBER = `${NUMERAL.replace('.,，', '')}+`;
const ARTICLE = new RegExp(`第(${NUMBER})条(?:之(${NUMBER}))?`, 'u');

const keyOf = (law: string, number: string): string => `${lawShortName(law)} ${number}`;

function numberOf(main: string, sub: string | undefined): string | null {
  const value = readNumeral(main);
  const part = sub === undefined ? null : readNumeral(sub);
  if (value === null || (sub !== undefined && part === null)) return null;
  return part === null ? String(value) : `${value}-${part}`;
}

/** By the corpus's titles. A corpus of one law is also found without its name. */
export function articleIndex({ articles }: Pick<Corpus, 'articles'>): ArticleIndex {
  const byKey = new Map<string, string | null>();
  const laws = new Set<string>();
  for (const article of articles) {
    const [, main, sub] = ARTICLE.exec(article.title) ?? [];
    const number = main === undefined ? null : numberOf(main, sub);
    if (number === null) continue;
    const law = lawOf(article);
    laws.add(law);
    const key = keyOf(law, number);
    byKey.set(key, byKey.has(key) ? null : article.id);
  }
  const [only] = laws.size === 1 ? laws : [];
  return {
    find: ({ law, number }) => byKey.get(keyOf(law || (only ?? ''), number)) ?? null,
  };
}

/** What stands before a law's name without 《》: 依照刑法, 我国刑法, 商法类中的证券法. */
const BEFORE_LAW = /^.*(?:依照|按照|根据|依据|适用|违反|触犯|我国|法条|的)|^(?:和|及)+/u;

/** The articles that a text cites, in its order, each once. Numbers in a row (第264、353条) share their law. */
export function citationsIn(text: string): Citation[] {
  const found = new Map<string, Citation>();
  const list = new RegExp(
    `(?:《([^》]{2,40})》|([\\p{Script=Han}]{1,30}?法(?:典)?))?的?\\s*第(${NUMBER}(?:[、,，和及]\\s*第?${NUMBER}(?:条)?)*)条(?:之(${NUMBER}))?`,
    'gu',
  );
  let law = '';
  for (const [, quoted, plain, numbers, sub] of text.matchAll(list)) {
    const said = quoted ?? plain?.replace(BEFORE_LAW, '') ?? law;
    // 本法 is the law named last.
    if (!/^[本该]法$/u.test(said)) law = said;
    const all = numbers!.split(/[、,，和及条第\s]+/u).filter((one) => one !== '');
    for (const [i, one] of all.entries()) {
      const number = numberOf(one, i === all.length - 1 ? sub : undefined);
      if (number !== null) found.set(`${law} ${number}`, { law, number });
    }
  }
  return [...found.values()];
}
