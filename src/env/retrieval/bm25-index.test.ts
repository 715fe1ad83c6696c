import { expect, test } from 'vitest';
import { type Random, stream } from '../../base/random.ts';
import type { Article } from '../types.ts';
import {
  addCounts,
  addDistinct,
  type Bag,
  buildBm25Index,
  ranksOf,
  scoreAll,
  topDocuments,
  topHits,
} from './bm25-index.ts';
import { termsOf } from './terms.ts';

const settings = { k1: 1.5, b: 0.75 };
const article = (id: string, title: string, text: string): Article => ({ id, title, text });

test('two short articles by hand', () => {
  // a1: 租 租 租租 合 租合 (title 租, text 租租合 → 租, 租, 租, 租租, 合, 租合: 6 terms); a2: 合 (1 term).
  const index = buildBm25Index([article('a2', '', '合'), article('a1', '租', '租租合')], settings);
  expect(index.ids).toEqual(['a1', 'a2']);
  const bag: Bag = new Map();
  addCounts(bag, index, '租合', 1);
  const scores = scoreAll(index, bag);
  // Mean length 3.5. Norm of a1: 1.5 · (0.25 + 0.75 · 6 / 3.5) = 2.303571; of a2: 1.5 · (0.25 + 0.75 / 3.5) = 0.696429.
  // idf of 租 and 租合 (df 1 of 2): ln 2; of 合 (df 2): ln 1.2 = 0.182322.
  const a1 = (Math.LN2 * 3 * 2.5) / 5.303571 + (0.182322 * 2.5) / 3.303571 + (Math.LN2 * 2.5) / 3.303571;
  const a2 = (0.182322 * 2.5) / 1.696429;
  expect(scores[0]).toBeCloseTo(a1, 5);
  expect(scores[1]).toBeCloseTo(a2, 5);
});

/** Articles over a small alphabet, so that terms repeat, and some words. */
function randomArticles(random: Random, count: number): Article[] {
  const text = (n: number) =>
    Array.from({ length: random.int(n) }, () => '甲乙丙丁戊己，'[random.int(7)]).join('') +
    [' lease', ' rents', ''][random.int(3)];
  const all = Array.from({ length: count }, (_, i) => article(`id${i}`, text(5), text(30)));
  return random.shuffle(all);
}

function naiveScores(articles: Article[], weights: Map<string, number>): Map<string, number> {
  const bags = articles.map(({ title, text }) => [...termsOf(title), ...termsOf(text)]);
  const mean = bags.reduce((sum, bag) => sum + bag.length, 0) / bags.length;
  const scores = new Map<string, number>();
  bags.forEach((bag, i) => {
    let score = 0;
    for (const [term, weight] of weights) {
      const df = bags.filter((other) => other.includes(term)).length;
      const tf = bag.filter((other) => other === term).length;
      const idf = Math.log(1 + (bags.length - df + 0.5) / (df + 0.5));
      score += (weight * idf * tf * 2.5) / (tf + 1.5 * (0.25 + (0.75 * bag.length) / mean));
    }
    scores.set(articles[i]!.id, score);
  });
  return scores;
}

test('scores of weighted bags equal the formula, written out', () => {
  const random = stream(3, 'bm25');
  for (let round = 0; round < 20; round++) {
    const articles = randomArticles(random, 1 + random.int(40));
    const index = buildBm25Index(articles, settings);
    const bag: Bag = new Map();
    addCounts(bag, index, '甲乙甲乙 lease 未', 2);
    addDistinct(bag, index, '丙甲乙，甲乙甲乙', 0.5);
    const weights = new Map<string, number>();
    for (const term of termsOf('甲乙甲乙 lease')) weights.set(term, (weights.get(term) ?? 0) + 2);
    for (const term of new Set(termsOf('丙甲乙，甲乙甲乙')))
      weights.set(term, (weights.get(term) ?? 0) + 0.5);
    const expected = naiveScores(articles, weights);
    const scores = scoreAll(index, bag);
    index.ids.forEach((id, d) => {
      expect(scores[d]).toBeCloseTo(expected.get(id)!, 4);
    });
  }
});

test('the order of the file does not matter', () => {
  const random = stream(4, 'bm25');
  const articles = randomArticles(random, 50);
  const search = (list: Article[]) => {
    const index = buildBm25Index(list, settings);
    const bag: Bag = new Map();
    addCounts(bag, index, '甲乙丙', 1);
    return topHits(index, scoreAll(index, bag), 50);
  };
  expect(search(random.shuffle(articles))).toEqual(search(articles));
});

test('top-k equals a full sort, ties to the smaller document, zeros left out', () => {
  const random = stream(5, 'top');
  for (let round = 0; round < 300; round++) {
    const scores = Float32Array.from({ length: 1 + random.int(60) }, () => random.int(6) / 4);
    const sorted = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]! || a - b);
    const found = sorted.filter((d) => scores[d]! > 0);
    for (const k of [1, 2, 7, 30, 100]) expect(topDocuments(scores, k)).toEqual(found.slice(0, k));
  }
});

test('ranks by counting equal places in a full sort', () => {
  const random = stream(6, 'ranks');
  const index = buildBm25Index(randomArticles(random, 40), settings);
  for (let round = 0; round < 50; round++) {
    const scores = Float32Array.from(index.ids, () => random.int(5));
    const sorted = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]! || a - b);
    expect(
      ranksOf(
        index,
        scores,
        sorted.map((d) => index.ids[d]!),
      ),
    ).toEqual(sorted.map((_, i) => i + 1));
  }
  expect(() => ranksOf(index, new Float32Array(40), ['nobody'])).toThrow(/"nobody" is not in the index/);
});

test('edges: one article, no shared term, no k', () => {
  const index = buildBm25Index([article('a', '', '…')], settings);
  const bag: Bag = new Map();
  addCounts(bag, index, '租赁', 1);
  expect(bag.size).toBe(0);
  expect(topHits(index, scoreAll(index, bag), 10)).toEqual([]);
  expect(topHits(index, Float32Array.of(1), 0)).toEqual([]);
});
