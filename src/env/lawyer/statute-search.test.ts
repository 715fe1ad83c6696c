/** Statute search: law in force on the day, before the cut; then the rerank by intent. */
import { describe, expect, it } from 'vitest';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from '../retrieval/bm25.ts';
import type { Article, Retriever, SearchRequest } from '../types.ts';
import { type IntentRequest, type IntentReranker, lexicalIntentReranker } from './intent-rerank.ts';
import { createStatuteSearch, inForce } from './statute-search.ts';

const bm25 = { k1: 1.5, b: 0.75, anchor: { original: 0, rewrite: 1 } };
/** Six articles, the first four repealed, all of them better hits than the two that replaced them. */
const dated = Array.from(
  { length: 6 },
  (_, i): Article => ({
    id: `a${i}`,
    title: `盗窃法第${i}条`,
    text: `盗窃 ${'财物 '.repeat(6 - i)}`,
    ...(i < 4 ? { to: '2020-12-31' } : { from: '2021-01-01' }),
  }),
);
const undated = dated.map(({ id, title, text }): Article => ({ id, title, text }));

/** A search whose first and second stages are kept: what was asked of them, and how many candidates the second saw. */
function watched(articles: Article[], topK: number, keep: number) {
  const corpus = corpusOf(articles);
  const inner = createBm25Retriever(corpus, bm25);
  const firstStage: { request: SearchRequest; k: number }[] = [];
  const secondStage: { request: IntentRequest; ids: string[]; keep: number }[] = [];
  const retriever: Retriever = {
    unknownTermShare: (text) => inner.unknownTermShare(text),
    search(request, k) {
      firstStage.push({ request, k });
      return inner.search(request, k);
    },
  };
  const reranker: IntentReranker = {
    name: 'watched',
    rerank(request, candidates, most) {
      secondStage.push({ request, ids: candidates.map(({ article }) => article.id), keep: most });
      return lexicalIntentReranker.rerank(request, candidates, most);
    },
  };
  const search = createStatuteSearch({ retriever, corpus, reranker, topK, keep });
  const on = async (date: string | null, intent = '') =>
    (await search.search({ original: '原问', query: '盗窃 财物', intent, date })).map(({ id }) => id);
  return { search, on, firstStage, secondStage };
}

describe('law in force', () => {
  it('is what a dated question finds, however far behind the others it ranks', async () => {
    const { on, secondStage } = watched(dated, 2, 2);
    expect((await on('2021-06-01')).sort()).toEqual(['a4', 'a5']);
    for (const id of await on('2020-06-01')) expect(['a0', 'a1', 'a2', 'a3']).toContain(id);
    // The second stage never sees more than topK, nor what was not in force.
    expect(secondStage.map(({ ids }) => ids.length)).toEqual([2, 2]);
  });
  it('is everything where the question or the corpus has no date: no more than topK is asked for', async () => {
    const { on, firstStage } = watched(dated, 3, 2);
    expect(await on(null)).toHaveLength(2);
    expect(firstStage.map(({ k }) => k)).toEqual([3]);
    const plain = watched(undated, 3, 2);
    expect(await plain.on('1900-01-01')).toEqual(await plain.on(null));
    expect(plain.firstStage.map(({ k }) => k)).toEqual([3, 3]);
  });
  it('may be nothing', async () => {
    const { on } = watched(dated.slice(0, 4), 2, 2);
    expect(await on('2021-01-01')).toEqual([]);
    expect(await on('2020-12-31')).toHaveLength(2);
  });
  it('includes the first and the last day', () => {
    const law = { from: '2020-01-01', to: '2020-12-31' };
    expect(['2019-12-31', '2020-01-01', '2020-12-31', '2021-01-01'].map((day) => inForce(law, day))).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect([
      inForce({ from: '2020-01-01' }, '2019-12-31'),
      inForce({ from: '2020-01-01' }, '2999-01-01'),
    ]).toEqual([false, true]);
    expect([
      inForce({ to: '2020-01-01' }, '2020-01-02'),
      inForce({ to: '2020-01-01' }, '0900-01-01'),
    ]).toEqual([false, true]);
    expect(inForce({}, '1900-01-01')).toBe(true);
  });
});

describe('the two stages', () => {
  it('the first searches the query beside the question, the second knows the intent', async () => {
    const { on, firstStage, secondStage } = watched(undated, 5, 3);
    await on(null, '量刑');
    expect(firstStage).toEqual([{ request: { original: '原问', rewrite: '盗窃 财物' }, k: 5 }]);
    expect(secondStage).toMatchObject([
      { request: { original: '原问', query: '盗窃 财物', intent: '量刑' }, keep: 3 },
    ]);
    expect(secondStage[0]!.ids).toHaveLength(5);
  });
  it('an intent lifts an article that serves it, and evidence knows its place and is itself its article', async () => {
    const articles = undated.map((one) => (one.id === 'a2' ? { ...one, text: `${one.text}处拘役` } : one));
    const { search, on } = watched(articles, 6, 3);
    const [plain, sentencing] = [await on(null), await on(null, '量刑')];
    expect(plain[0]).not.toBe('a2');
    expect(sentencing[0]).toBe('a2');
    const found = await search.search({ original: '', query: '盗窃 财物', intent: '量刑', date: null });
    expect(found.map(({ rank }) => rank)).toEqual([0, 1, 2]);
    expect(found[0]).toEqual({
      source: 'statute',
      id: 'a2',
      rank: 0,
      title: '盗窃法第2条',
      text: articles[2]!.text,
      articles: ['a2'],
    });
  });
  it('unknown terms are those of the first stage', () => {
    const { search } = watched(undated, 2, 2);
    expect(search.unknownTermShare('盗窃 财物')).toBe(0);
    expect(search.unknownTermShare('旮旯')).toBe(1);
    expect(search.unknownTermShare('')).toBe(1);
  });
});
