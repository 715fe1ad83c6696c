import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { loadCorpus } from './corpus.ts';
import { findWords } from './ngrams.ts';
import { countSegments } from './segment.ts';
import { mineTerms } from './terms.ts';
import type { Article } from './types.ts';

const NO_LIMITS = { minCount: 2, minPmi: -100, minEntropy: -1, minPieceShare: 0, maxLength: 5 };
const CHARACTERS = '甲乙丙丁戊己庚辛';

/** Counts, weakest PMI and neighbour entropy of an n-gram, straight from their definitions over strings. */
function byDefinition(texts: readonly string[], gram: string) {
  const occurrences = (part: string) =>
    texts.flatMap((text) => [...text].flatMap((_, i) => (text.startsWith(part, i) ? [{ text, i }] : [])));
  const total = texts.join('').replaceAll('。', '').length;
  const found = occurrences(gram);
  let pmi = Infinity;
  for (let cut = 1; cut < gram.length; cut++) {
    const p = (part: string) => occurrences(part).length / total;
    pmi = Math.min(pmi, Math.log(p(gram) / (p(gram.slice(0, cut)) * p(gram.slice(cut)))));
  }
  const entropy = (neighbour: (at: { text: string; i: number }) => string | undefined) => {
    const counts = new Map<string, number>();
    found.forEach((at, n) => {
      const c = neighbour(at);
      const key = c === undefined || c === '。' ? `boundary ${n}` : c;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    });
    let h = 0;
    for (const c of counts.values()) h -= (c / found.length) * Math.log(c / found.length);
    return h;
  };
  const left = entropy(({ text, i }) => text[i - 1]);
  const right = entropy(({ text, i }) => text[i + gram.length]);
  return { count: found.length, pmi, entropy: Math.min(left, right) };
}

function encode(texts: readonly string[]): Int32Array {
  return Int32Array.from(
    [...texts.map((text) => `${text}。`).join('')].map((c) => CHARACTERS.indexOf(c) + 1),
  );
}

function wordsOf(texts: readonly string[], criteria: typeof NO_LIMITS): string[] {
  const joined = texts.map((text) => `${text}。`).join('');
  return findWords(encode(texts), CHARACTERS.length + 1, criteria)
    .flatMap(({ length, first }) =>
      [...first].filter((at) => at >= 0).map((at) => joined.slice(at, at + length)),
    )
    .sort();
}

describe('findWords', () => {
  it('finds exactly the n-grams that pass by definition, on random texts', () => {
    for (let trial = 0; trial < 6; trial++) {
      const random = stream(trial, 'texts');
      const texts = Array.from({ length: 12 }, () =>
        Array.from({ length: 4 + random.int(25) }, () =>
          random.next() < 0.08 ? '。' : CHARACTERS[Math.min(random.int(8), random.int(8))]!,
        ).join(''),
      );
      const criteria = { ...NO_LIMITS, minPmi: 0.6, minEntropy: 0.5 };
      const grams = new Set(
        texts.flatMap((text) =>
          [...text].flatMap((_, i) =>
            [2, 3, 4, 5].map((n) => text.slice(i, i + n)).filter((g) => g.length > 1),
          ),
        ),
      );
      const expected = [...grams].filter((gram) => {
        if (gram.includes('。')) return false;
        const { count, pmi, entropy } = byDefinition(texts, gram);
        return count >= 2 && pmi > 0.6 && entropy > 0.5;
      });
      expect(wordsOf(texts, criteria)).toEqual(expected.sort());
      expect(expected.length).toBeGreaterThan(3);
    }
  });

  it('never joins two texts', () => {
    expect(wordsOf(['甲', '乙', '甲', '乙'], NO_LIMITS)).toEqual([]);
  });
});

describe('countSegments', () => {
  it('gives the occurrences of a chance meeting of words to the words', () => {
    // 乙丙 occurs as often as 甲乙 and 丙丁 together do, but only where they meet.
    const texts = ['甲乙丙丁', '甲乙丙丁', '甲乙', '丙丁', '戊甲乙', '丙丁己'];
    const codes = encode(texts);
    const levels = findWords(codes, CHARACTERS.length + 1, { ...NO_LIMITS, maxLength: 2 });
    const [pieces] = countSegments(codes, levels);
    const joined = texts.map((text) => `${text}。`).join('');
    const counts = Object.fromEntries(
      [...levels[0]!.first].map((at, id) => [joined.slice(at, at + 2), pieces![id]]),
    );
    expect(counts).toEqual({ 甲乙: 4, 乙丙: 0, 丙丁: 4 });
  });
});

const article = (id: string, text: string): Article => ({ id, title: id, text });

describe('mineTerms', () => {
  const corpus = [
    article('a', '承租人拖欠租金，出租人请求解除合同。'),
    article('b', '房屋由承租人使用，承租人装修，租金照付。'),
    article('c', '劳动者请求支付租金和工资，拖欠工资。'),
    article('d', '公司减资，拖欠工资，解除合同，和解除合同有别。'),
  ];
  const table = mineTerms(corpus, { minCount: 2, minPmi: 1, minEntropy: 0.6 });

  it('ranks by √tf · idf · √length and lists no term within another', () => {
    // 承租人 is in 2 of 4 articles, twice in b; 租金 in 3 of 4.
    expect(table.idf('承租人')).toBeCloseTo(Math.log(2), 12);
    expect(table.idf('租金')).toBeCloseTo(Math.log(4 / 3), 12);
    const terms = table.articleTerms('b', 10);
    expect(terms[0]).toBe('承租人');
    expect(terms).toContain('租金');
    for (const term of terms) expect(terms.filter((other) => other.includes(term))).toEqual([term]);
  });

  it('finds the same terms in any text, gives at most n, and none for an unknown article', () => {
    expect(table.termsIn('租金与承租人', 10)).toEqual(['承租人', '租金']);
    expect(table.termsIn('租金与承租人', 1)).toEqual(['承租人']);
    expect(table.articleTerms('nobody', 5)).toEqual([]);
  });

  it('has no term for a corpus without Chinese', () => {
    expect(mineTerms([article('x', 'The tenant pays rent. The tenant pays rent.')]).size).toBe(0);
  });

  const real = '../shared/data/stard/corpus.jsonl.gz';
  it.skipIf(!existsSync(real))(
    'finds legal terms and no fragments in 12,000 real articles',
    async () => {
      const { articles } = await loadCorpus(real);
      const mined = mineTerms(articles.slice(0, 12_000));
      for (const term of ['劳动合同', '不可抗力', '诉讼时效', '承租人', '消费者', '有期徒刑']) {
        expect(mined.idf(term), term).toBeGreaterThan(0);
      }
      for (const fragment of ['人民法', '的合同', '人履行债务', '权的实现', '百七十二条', '为合同成立']) {
        expect(mined.idf(fragment), fragment).toBeUndefined();
      }
    },
    60_000,
  );
});
