import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { stream } from '../../../base/random.ts';
import { extractiveCondenser, modelCondenser, outcomeText } from './condense.ts';
import { loadPrecedents, precedentSetOf } from './precedent-set.ts';
import { choosePrecedents, psiLikeness, type RankedCase } from './rank.ts';
import { chargesOf, createPrecedentSearch } from './search.ts';

const random = stream(1, 'precedents-test');
const cases = (count: number): RankedCase[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `c${i}`,
    relevance: 20 * random.next(),
    authority: random.int(4) / 3,
    psi: random.int(5) === 0 ? null : random.next(),
  }));
const weights = { alpha: 0.8, beta: 0.3, k: 3 };

describe('choosePrecedents', () => {
  it('really chooses k, none twice, and all where there are fewer', () => {
    for (let i = 0; i < 200; i++) {
      const all = cases(random.int(12));
      const k = 1 + random.int(6);
      const chosen = choosePrecedents(all, { ...weights, k });
      expect(chosen).toHaveLength(Math.min(k, all.length));
      expect(new Set(chosen).size).toBe(chosen.length);
    }
  });
  it('is the order of the base score where diversity weighs nothing', () => {
    for (let i = 0; i < 100; i++) {
      const all = cases(8);
      const best = Math.max(...all.map(({ relevance }) => relevance));
      const base = (one: RankedCase): number => (0.8 * one.relevance) / best + (1 - 0.8) * one.authority;
      const order = [...all].sort((a, b) => base(b) - base(a)).map(({ id }) => id);
      expect(choosePrecedents(all, { ...weights, beta: 0, k: 8 })).toEqual(order);
    }
  });
  it('pushes apart the sentences, the more the larger beta is', () => {
    const all = [0.5, 0.5, 0.51, 0.1, 0.9].map((psi, i) => ({
      id: `c${i}`,
      relevance: 10 - 0.1 * i,
      authority: 0,
      psi,
    }));
    const spread = (beta: number): number => {
      const chosen = choosePrecedents(all, { alpha: 1, beta, k: 3 }).map(
        (id) => all.find((one) => one.id === id)!.psi,
      );
      return Math.max(...chosen) - Math.min(...chosen);
    };
    expect(choosePrecedents(all, { alpha: 1, beta: 0, k: 3 })).toEqual(['c0', 'c1', 'c2']);
    const spreads = [0, 0.05, 0.1, 0.3, 1].map(spread);
    expect(spreads).toEqual([...spreads].sort((a, b) => a - b));
    expect(spreads[0]).toBeCloseTo(0.01);
    expect(spreads.at(-1)).toBeCloseTo(0.8);
  });
  it('takes authority where alpha is 0, ties by id; an unknown sentence is half like any other', () => {
    const all = [
      { id: 'b', relevance: 9, authority: 0, psi: 0.5 },
      { id: 'c', relevance: 1, authority: 1, psi: null },
      { id: 'a', relevance: 5, authority: 0, psi: 0.5 },
    ];
    expect(choosePrecedents(all, { alpha: 0, beta: 0, k: 3 })).toEqual(['c', 'a', 'b']);
    expect([psiLikeness(null, 0.9), psiLikeness(null, null), psiLikeness(0.2, 0.7)]).toEqual([0.5, 0.5, 0.5]);
  });
});

const judgment = '某县人民法院 判决如下： 被告人甲犯盗窃罪，判处有期徒刑十八个月，缓刑二年。 如不服本判决';
const one = precedentSetOf([
  {
    id: 'p1',
    court: null,
    fact: '指控……。经审理查明：甲进入乙家，偷走手机一部。',
    judgment,
    articles: ['a', 'a'],
  },
]).cases[0]!;

describe('condense', () => {
  it('by extracts: outcome, then what the court found, within the length; and it says what it is', async () => {
    const text = await extractiveCondenser.condense(one, 40);
    expect(text).toBe('基层法院，有期徒刑18个月，缓刑24个月。甲进入乙家，偷走手机一部。');
    expect([...(await extractiveCondenser.condense(one, 12))]).toHaveLength(12);
    expect(extractiveCondenser.name).toContain('stand-in');
    expect(outcomeText({ level: null, sentence: null })).toBe('刑罚不明');
    expect(one.articles).toEqual(['a']);
  });
  it('by a model: its fields in order; what is no such object rejects', async () => {
    const says = (text: string) =>
      modelCondenser({ chat: { name: 'm', chat: async () => text }, maxTokens: 9, temperature: 0 });
    const fields = { facts: '偷手机', court: '基层', outcome: '盗窃罪', sentence: '一年半' };
    expect(await says(`好：${JSON.stringify(fields)}`).condense(one, 99)).toBe(
      '基层，盗窃罪，一年半。偷手机',
    );
    const thought = `<think>{"facts":"?"} 不对</think>{好}：\n\`\`\`json\n${JSON.stringify(fields)}\n\`\`\``;
    expect(await says(thought).condense(one, 99)).toBe('基层，盗窃罪，一年半。偷手机');
    for (const text of ['不知道', '{}', JSON.stringify({ ...fields, facts: '' })])
      await expect(says(text).condense(one, 99)).rejects.toThrow(/^m: no condensed case/);
  });
});

describe.skipIf(!existsSync('../shared/data/judge/precedents.jsonl.gz'))('search on real judgments', () => {
  it('finds a case by its facts; without it, others that apply the same articles; several, and not all alike', async () => {
    const set = await loadPrecedents('../shared/data/judge/precedents.jsonl.gz');
    const search = createPrecedentSearch({
      set,
      condenser: extractiveCondenser,
      ...weights,
      candidates: 20,
      chars: 60,
      k1: 1.5,
      b: 0.75,
    });
    let own = 0;
    let shared = 0;
    const some = set.cases.filter((_, i) => i % 5 === 0);
    for (const { id, fact, articles } of some) {
      const request = { original: fact, query: fact.slice(0, 200), charges: [] };
      const found = await search.search({ ...request, exclude: [] });
      if (found.some((hit) => hit.id === id)) own++;
      const others = await search.search({ ...request, exclude: [id] });
      expect(others).toHaveLength(3);
      expect(others.map((hit) => hit.id)).not.toContain(id);
      // Beside what nearly every judgment applies: confession, fines, confiscation, probation.
      const telling = articles.filter(
        (article) => !['xf67', 'xf64', 'xf52', 'xf53', 'xf72', 'xf73', 'xf61'].includes(article),
      );
      if (others.some((hit) => hit.articles.some((article) => telling.includes(article)))) shared++;
    }
    expect(own / some.length).toBeGreaterThan(0.95);
    expect(shared / some.length).toBeGreaterThan(0.8);
    expect(chargesOf(set.cases[0]!)).toEqual(['非法侵入住宅罪']);
  });
});
