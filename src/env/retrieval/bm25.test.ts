import { expect, test } from 'vitest';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from './bm25.ts';
import { addCounts, type Bag, scoreAll } from './bm25-index.ts';
import { termsOf } from './terms.ts';

const corpus = corpusOf([
  { id: 'lease', title: '民法典租赁', text: '承租人应当按照约定支付租金，押金应当返还。' },
  { id: 'loan', title: '民法典借款', text: '借款人应当按照约定的期限返还借款。' },
  { id: 'work', title: '劳动法', text: '用人单位应当支付劳动报酬 wages。' },
]);
const options = { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } };
const retriever = createBm25Retriever(corpus, options);
const { index } = retriever;

/** Scores of an explicit bag of terms. */
function scoresOf(weights: [string, number][]): Float32Array {
  const bag: Bag = new Map();
  for (const [term, weight] of weights) {
    const number = index.vocabulary.numberOf(term);
    if (number >= 0) bag.set(number, (bag.get(number) ?? 0) + weight);
  }
  return scoreAll(index, bag);
}

const close = (actual: Float32Array, expected: Float32Array) =>
  actual.forEach((score, d) => {
    expect(score).toBeCloseTo(expected[d]!, 4);
  });

test('a plain search counts every occurrence', async () => {
  const question = '返还返还押金';
  const scores = retriever.scores({ original: question, rewrite: question });
  close(scores, scoresOf(termsOf(question).map((term) => [term, 1])));
  const hits = await retriever.search({ original: question, rewrite: question }, 10);
  expect(hits.map(({ id }) => id)).toEqual(['lease', 'loan']);
  expect(hits[0]!.score).toBe(scores[index.documentOf.get('lease')!]);
});

test('a rewrite adds its distinct terms at its weight to the question at its own', () => {
  const original = '押金押金不退';
  const rewrite = '租赁合同押金返还，押金返还，押金返还';
  for (const anchor of [
    { original: 1, rewrite: 0.5 },
    { original: 0.25, rewrite: 2 },
    { original: 0, rewrite: 1 },
  ]) {
    const scores = createBm25Retriever(corpus, { ...options, anchor }).scores({ original, rewrite });
    const question = termsOf(original).map((term): [string, number] => [term, anchor.original]);
    const added = [...new Set(termsOf(rewrite))].map((term): [string, number] => [term, anchor.rewrite]);
    close(scores, scoresOf([...question, ...added]));
  }
});

test('repeating a term of the rewrite changes nothing', () => {
  const once = retriever.scores({ original: '房东', rewrite: '押金，返还' });
  expect(retriever.scores({ original: '房东', rewrite: '押金，押金，返还，返还，押金' })).toEqual(once);
});

test('what was searched before changes no bit of a score', () => {
  const request = { original: '工资不发', rewrite: '劳动报酬 wage' };
  const fresh = createBm25Retriever(corpus, options, index).scores(request);
  for (let i = 0; i < 200; i++) retriever.scores({ original: `问题${i}返还`, rewrite: `返还${i}` });
  expect(retriever.scores(request)).toEqual(fresh);
  expect(retriever.scores(request)).toEqual(fresh);
  // The caller may write to what it got.
  const plain = { original: '返还', rewrite: '返还' };
  retriever.scores(plain).fill(7);
  const bag: Bag = new Map();
  addCounts(bag, index, '返还', 1);
  expect(retriever.scores(plain)).toEqual(scoreAll(index, bag));
});

test('ranks of articles under an expanded search', () => {
  const request = { original: '钱', rewrite: '劳动报酬' };
  expect(retriever.ranksOf(request, ['work', 'lease', 'loan'])).toEqual([1, 2, 3]);
});

test('share of unknown terms', () => {
  expect(retriever.unknownTermShare('押金返还')).toBeCloseTo(1 / 3); // 押金, 返还 known, 金返 not
  expect(retriever.unknownTermShare('量子纠缠')).toBe(1);
  expect(retriever.unknownTermShare('押金')).toBe(0);
  expect(retriever.unknownTermShare('wage lease 押金')).toBeCloseTo(1 / 3);
  expect(retriever.unknownTermShare('12 …')).toBe(1);
  expect(retriever.unknownTermShare('')).toBe(1);
});
