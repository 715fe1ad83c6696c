/** Statute search, rerank by intent, judge and oracle: on small corpora, and on the real articles and cases. */
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { corpusOf, loadCorpus } from '../corpus.ts';
import { importQuestions } from '../import/import-questions.ts';
import { targetSource } from '../malr/demonstration-targets.ts';
import { createBm25Retriever } from '../retrieval/bm25.ts';
import { createLexicalReranker } from '../retrieval/lexical-rerank.ts';
import { mineTerms } from '../terms.ts';
import { lexicalIntentReranker, modelIntentReranker } from './intent-rerank.ts';
import { modelJudge, votesJudge } from './judge.ts';
import { demonstrateLawyer } from './oracle.ts';
import { createStatuteSearch, inForce } from './statute-search.ts';
import type { Evidence } from './types.ts';

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

const statute = (id: string): Evidence => ({
  source: 'statute',
  id,
  rank: 0,
  title: id,
  text: id,
  articles: [id],
});
const precedent = (articles: string[], text = ''): Evidence => ({
  source: 'precedent',
  id: 'p',
  rank: 0,
  title: '',
  text,
  articles,
});

describe('the judge', () => {
  const asked = { query: '怎么判' };
  it('by a model cites evidence by its number; a precedent stands for what it applies', async () => {
    const judge = (text: string) => modelJudge({ chat: says(text), maxTokens: 9, temperature: 0 });
    const evidence = [statute('a'), precedent(['b', 'c'])];
    const said = '理由。\n{"answer":"是","articles":["1","[2]","1"],"choices":["b","A"],"number":6}';
    expect(await judge(said).answer(asked, evidence)).toMatchObject({
      articles: ['a', 'b', 'c'],
      choices: ['A', 'B'],
      number: 6,
    });
    await expect(judge('{"answer":"是","articles":["3"]}').answer(asked, evidence)).rejects.toThrow(
      'cites evidence 3, there are 2',
    );
    for (const text of ['', '是', '{"answer":""}', '{"articles":[]}'])
      await expect(judge(text).answer(asked, evidence)).rejects.toThrow(/^m: no answer in the form/);
  });
  const fits: Record<string, number> = { a: 0.9, b: 0.1, c: 0.85 };
  const votes = votesJudge({
    fit: async (_, id) => fits[id] ?? 0,
    commonness: (id) => (id === 'z' ? 0.95 : 0.05),
  });
  it('by votes follows the evidence: fit and place, precedents, and not what all of them apply', async () => {
    const named = async (...evidence: Evidence[]) => (await votes.answer(asked, evidence)).articles;
    expect(await named(statute('a'), statute('b'))).toEqual(['a']);
    expect(await named(statute('b'), statute('a'))).toEqual(['a']);
    expect(await named(statute('a'), statute('c'))).toEqual(['a', 'c']);
    expect(await named(precedent(['b', 'z']), precedent(['b', 'z']))).toEqual(['b']);
    expect(await named()).toEqual([]);
    expect(votes.name).toContain('stand-in');
  });
  it('by votes chooses the option that the evidence holds, and the median term of the precedents', async () => {
    const choice = {
      query: '哪一项？\nA. 交通肇事\nB. 盗窃公私财物',
      answer: { kind: 'choice' as const, choices: ['B'] },
    };
    const evidence = [{ ...statute('a'), text: '盗窃公私财物的' }];
    expect((await votes.answer(choice, evidence)).choices).toEqual(['B']);
    const number = { query: '几个月', answer: { kind: 'number' as const, value: 1, tolerance: 0 } };
    const terms = ['有期徒刑6个月', '有期徒刑24个月', '拘役5个月', '免予刑事处罚'].map((text) =>
      precedent([], text),
    );
    expect((await votes.answer(number, terms)).number).toBe(6);
    expect((await votes.answer(number, [])).number).toBe(null);
  });
});

const SHARED = '../shared/data';
describe.skipIf(!existsSync(`${SHARED}/lawbench`))(
  'on real cases (skipped where the shared data are absent)',
  () => {
    it('the oracle finds nearly all, the question as a query less than half: there is room to learn', async () => {
      const corpus = await loadCorpus(`${SHARED}/judge/statutes.jsonl`);
      const { queries } = await importQuestions(
        `${SHARED}/lawbench/article-prediction.jsonl`,
        'lawbench',
        corpus,
      );
      const some = queries.filter((_, i) => i % 3 === 0);
      const retriever = createBm25Retriever(corpus, {
        k1: 1.5,
        b: 0.75,
        anchor: { original: 0, rewrite: 1 },
      });
      const statutes = createStatuteSearch({
        retriever,
        corpus,
        reranker: lexicalIntentReranker,
        topK: 30,
        keep: 5,
      });
      const cosine = createLexicalReranker(corpus, retriever.index, { alpha: 0 });
      const judge = votesJudge({
        fit: async (question, id) => (await cosine.rerank(question, [{ id, score: 0 }], 1))[0]!.score,
        commonness: () => 0,
      });
      const config = {
        prompts: 'zh-compact' as const,
        maxTurns: 6,
        maxPolicyTokens: 400,
        maxQueryChars: 64,
        evidenceChars: 12,
        evidenceItems: 5,
        malformed: 'end' as const,
        allowEarlyStop: false,
        unknownTermLimit: 0.5,
        poolLimit: 20,
      };
      const tools = { statutes, precedents: null, judge, hasArticle: (id: string) => corpus.byId.has(id) };
      const options = {
        config,
        source: targetSource(corpus.byId, mineTerms(corpus.articles)),
        rollouts: 1,
        seed: 1,
      };
      const played = await demonstrateLawyer(some, tools, options);
      expect(await demonstrateLawyer(some.slice(0, 5), tools, options)).toEqual(played.slice(0, 5));
      const recall = (found: readonly string[], gold: string[]) =>
        gold.filter((id) => found.includes(id)).length / gold.length;
      let oracle = 0;
      let plain = 0;
      let right = 0;
      for (const [i, query] of some.entries()) {
        const { episode } = played[i]!;
        expect(episode.termination).toEqual({ kind: 'planner', reason: 'STOP' });
        // It stops as soon as everything is found.
        const before = episode.rounds.slice(0, -1).flatMap(({ newIds }) => newIds);
        expect(recall(before, query.gold)).toBeLessThan(1);
        oracle += recall(episode.pool, query.gold) / some.length;
        const asIs = await statutes.search({ original: '', query: query.query, intent: '', date: null });
        plain +=
          recall(
            asIs.map(({ id }) => id),
            query.gold,
          ) / some.length;
        right += recall(episode.answer!.articles, query.gold) / some.length;
      }
      expect(oracle).toBeGreaterThan(0.95);
      expect(plain).toBeLessThan(0.5);
      expect(right).toBeGreaterThan(0.7);
    });
  },
);
