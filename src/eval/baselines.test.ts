import { expect, test } from 'vitest';
import { corpusOf } from '../env/corpus.ts';
import { createBm25Retriever } from '../env/retrieval/bm25.ts';
import type { Query } from '../env/types.ts';
import { baselineRankings } from './baselines.ts';

const article = (id: string, law: string, text: string) => ({ id, title: `${law}第一条`, law, text });
const corpus = corpusOf([
  article('civ1', '民法典', '押金应当返还'),
  article('civ2', '民法典', '租赁期限届满'),
  article('civ3', '民法典', '相邻关系'),
  article('lab1', '劳动法', '支付劳动报酬'),
  article('lab2', '劳动法', '押金不得收取'),
  article('tax1', '税法', '押金征税'),
  article('tax2', '税法', '期限征税'),
]);
const retriever = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } });
const question = (id: string, query: string, ...gold: string[]): Query => ({ id, query, gold });
const train = [
  question('t1', '房东扣押金', 'civ1'),
  question('t2', '租房到期', 'civ2'),
  question('t3', '老板欠薪', 'lab1'),
];
const validation = [question('v1', '押金', 'lab2', 'civ1', 'lab1'), question('v2', '老板欠薪水', 'lab1')];
const baselines = baselineRankings(retriever, { corpus, train, validation });
const rankings = (name: RegExp) => baselines.find((one) => name.test(one.name))!;

test('the five baselines, a ranking for every question, as deep as asked', () => {
  expect(baselines.map(({ name }) => name)).toEqual([
    'BM25',
    "BM25 + the most cited law's name",
    "BM25 + the gold law's name (oracle)",
    'BM25 within the laws cited in training',
    'BM25 + law prior + nearest training questions',
  ]);
  for (const { rankings } of baselines) expect(rankings).toHaveLength(2);
  const shallow = baselineRankings(retriever, { corpus, train, validation }, 1);
  for (const { rankings } of shallow) for (const ids of rankings) expect(ids.length).toBeLessThanOrEqual(1);
});

test('BM25 is the plain search', async () => {
  const request = { original: '押金', rewrite: '押金' };
  const hits = await retriever.search(request, 30);
  expect(rankings(/^BM25$/).rankings[0]).toEqual(hits.map(({ id }) => id));
});

test('a name brings the articles of its law: the most cited one, or the one of most golds', () => {
  // v1 asks for 押金 and has golds of 劳动法, 民法典, 劳动法; two of three training golds are of 民法典.
  // Neither civ3 nor lab1 says 押金: only the name of its law brings it up.
  const place = (name: RegExp, id: string) => rankings(name).rankings[0]!.indexOf(id);
  expect(place(/^BM25$/, 'civ3')).toBe(-1);
  expect(place(/most cited/, 'civ3')).toBeGreaterThanOrEqual(0);
  expect(place(/most cited/, 'civ3')).toBeLessThan(place(/most cited/, 'lab1'));
  expect(place(/oracle/, 'lab1')).toBeGreaterThanOrEqual(0);
  expect(place(/oracle/, 'lab1')).toBeLessThan(place(/oracle/, 'civ3'));
});

test('the filter leaves only laws cited in training', () => {
  expect(rankings(/^BM25$/).rankings[0]).toContain('tax1');
  expect(rankings(/within/).rankings[0]!.sort()).toEqual(['civ1', 'lab2']);
});

test('prior and neighbours: the formula, written out, with the constants it says it chose', () => {
  const { settings, rankings: found } = rankings(/prior/);
  const { c, w } = settings as { c: number; w: number };
  const cited: Record<string, number> = { 民法典: 2, 劳动法: 1, 税法: 0 };
  const questions = createBm25Retriever(
    corpusOf(train.map(({ id, query }) => ({ id, title: '', text: query }))),
    { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } },
  );
  validation.forEach(({ query }, i) => {
    const request = { original: query, rewrite: query };
    const plain = retriever.scores(request);
    const near = questions.scores(request);
    const scores = corpus.articles.map(({ id, law }) => {
      let score = plain[retriever.index.documentOf.get(id)!]! + c * Math.log(1 + cited[law!]!);
      for (const other of train) {
        if (other.gold.includes(id)) score += w * near[questions.index.documentOf.get(other.id)!]!;
      }
      return { id, score };
    });
    scores.sort((x, y) => y.score - x.score || (x.id < y.id ? -1 : 1));
    expect(found[i]).toEqual(scores.map(({ id }) => id));
  });
});

test('constants are chosen with the question itself left out', () => {
  // Every training question has a gold of its own, never found by words. Counting a question as its own
  // neighbour would make w > 0 look perfect; left out, neighbours bring only wrong articles.
  const texts = Array.from({ length: 40 }, (_, i) =>
    article(`x${i}`, `法${i}`, String.fromCharCode(0x5000 + i)),
  );
  const many = corpusOf(texts);
  const search = createBm25Retriever(many, { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } });
  const asked = texts
    .slice(0, 20)
    .map(({ id }, i) => question(`t${i}`, `同样的问题${'一二三四五'[i % 5]}`, id));
  const all = baselineRankings(search, { corpus: many, train: asked, validation: asked.slice(0, 1) });
  expect(all.at(-1)!.settings.w).toBe(0);
});
