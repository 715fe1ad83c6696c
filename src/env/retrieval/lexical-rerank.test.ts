import { expect, test } from 'vitest';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from './bm25.ts';
import { createLexicalReranker } from './lexical-rerank.ts';

const corpus = corpusOf([
  { id: 'a', title: '', text: '押金返还' },
  { id: 'b', title: '', text: '押金' },
  { id: 'c', title: '', text: '劳动报酬' },
  { id: 'd', title: '', text: '劳动合同' },
]);
const { index } = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } });
const rerank = (alpha: number) => createLexicalReranker(corpus, index, { alpha }).rerank;

test('scores by hand', async () => {
  // Pairs with their idf: 押金 is in two of four articles, ln 2; 金返 and 返还 in one, ln(1 + 3.5 / 1.5).
  const two = Math.log(2);
  const one = Math.log(1 + 3.5 / 1.5);
  const hits = [
    { id: 'c', score: 8 },
    { id: 'a', score: 4 },
    { id: 'b', score: 2 },
  ];
  const found = await rerank(0.6)('押金返还吗', hits, 10);
  // The question's known pairs are those of a, so their cosine is 1; 还吗 is unknown and counts nowhere.
  const expected = [
    { id: 'a', score: 0.6 * 0.5 + 0.4 },
    { id: 'c', score: 0.6 },
    { id: 'b', score: 0.6 * 0.25 + (0.4 * two) / Math.sqrt(two * (two + 2 * one)) },
  ];
  expect(found.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
  found.forEach(({ score }, i) => {
    expect(score).toBeCloseTo(expected[i]!.score, 6);
  });
});

test('alpha 1 keeps the first stage, alpha 0 asks the question only; ties by id', async () => {
  const hits = [
    { id: 'd', score: 3 },
    { id: 'c', score: 3 },
    { id: 'b', score: 1 },
  ];
  const ids = async (alpha: number, keep: number) =>
    (await rerank(alpha)('押金', hits, keep)).map(({ id }) => id);
  expect(await ids(1, 10)).toEqual(['c', 'd', 'b']);
  expect(await ids(0, 10)).toEqual(['b', 'c', 'd']);
  expect(await ids(1, 2)).toEqual(['c', 'd']);
});

test('edges: nothing found, a question without known terms, an article it does not know', async () => {
  expect(await rerank(0.7)('押金', [], 10)).toEqual([]);
  const hits = [{ id: 'b', score: 2 }];
  expect(await rerank(0.7)('？', hits, 10)).toEqual([{ id: 'b', score: 0.7 }]);
  await expect(rerank(0.7)('押金', [{ id: 'zz', score: 1 }], 10)).rejects.toThrow(/"zz"/);
});
