/** Statute search: law in force on the day, and the rerank by intent. */
import { describe, expect, it } from 'vitest';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from '../retrieval/bm25.ts';
import { lexicalIntentReranker, modelIntentReranker } from './intent-rerank.ts';
import { createStatuteSearch, inForce } from './statute-search.ts';

const says = (text: string) => ({ name: 'm', chat: async () => text });
const candidates = [
  { article: { id: 'a', title: '一', text: '盗窃公私财物的，以盗窃论。' }, score: 10 },
  { article: { id: 'b', title: '二', text: '盗窃的，处三年以下有期徒刑。' }, score: 9 },
  { article: { id: 'c', title: '三', text: '但是不满十六周岁的除外。' }, score: 8.9 },
];
const request = (intent: string) => ({ original: '', query: '盗窃', intent });
const idsOf = (found: { article: { id: string } }[]) => found.map(({ article }) => article.id).join('');

describe('rerank by intent', () => {
  it('the stand-in prefers what says what the intent asks for, and else keeps the order', async () => {
    const order = async (intent: string) =>
      idsOf(await lexicalIntentReranker.rerank(request(intent), candidates, 3));
    expect(await order('量刑幅度')).toBe('bac');
    expect(await order('sentencing range')).toBe('bac');
    expect(await order('例外情形')).toBe('cab');
    expect(await order('随便')).toBe('abc');
    expect(await order('')).toBe('abc');
    expect(lexicalIntentReranker.name).toContain('stand-in');
    expect(idsOf(await lexicalIntentReranker.rerank(request(''), candidates, 2))).toBe('ab');
  });
  it('a model names numbers; what it leaves out goes; what is not there, and no numbers, reject', async () => {
    const by = (text: string) => modelIntentReranker(says(text)).rerank(request('量刑'), candidates, 2);
    expect(idsOf(await by('{"best":[3,3,1,2]}'))).toBe('ca');
    expect(idsOf(await by('我认为 {"best":[]}'))).toBe('');
    await expect(by('{"best":[4]}')).rejects.toThrow('no candidate 4 of 3');
    for (const text of ['', '1, 2', '{"best":"1"}', '{"best":[0]}'])
      await expect(by(text)).rejects.toThrow(/^m: no list/);
    expect(await modelIntentReranker(says('')).rerank(request(''), [], 2)).toEqual([]);
  });
});

describe('law in force', () => {
  const articles = Array.from({ length: 6 }, (_, i) => ({
    id: `a${i}`,
    title: `盗窃法第${i}条`,
    text: `盗窃 ${'财物 '.repeat(6 - i)}`,
    ...(i < 4 ? { to: '2020-12-31' } : { from: '2021-01-01' }),
  }));
  const corpus = corpusOf(articles);
  const retriever = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 0, rewrite: 1 } });
  const search = createStatuteSearch({
    retriever,
    corpus,
    reranker: lexicalIntentReranker,
    topK: 2,
    keep: 2,
  });
  const on = async (date: string | null) =>
    (await search.search({ original: '', query: '盗窃 财物', intent: '', date }))
      .map(({ id }) => id)
      .sort()
      .join();
  it('is what a dated question finds, however far behind the others it ranks', async () => {
    expect(await on('2021-06-01')).toBe('a4,a5');
    for (const id of (await on('2020-06-01')).split(',')) expect(['a0', 'a1', 'a2', 'a3']).toContain(id);
    expect((await on(null)).split(',')).toHaveLength(2);
  });
  it('includes the first and the last day', () => {
    const law = { from: '2020-01-01', to: '2020-12-31' };
    expect(['2019-12-31', '2020-01-01', '2020-12-31', '2021-01-01'].map((day) => inForce(law, day))).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect(inForce({}, '1900-01-01')).toBe(true);
  });
});
