import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { mineTerms } from '../terms.ts';
import type { Article, Hit } from '../types.ts';
import { ACTIONS, offeredActions } from './agents.ts';
import { demonstrate, demonstrationPolicy, planAction } from './demonstrate.ts';
import {
  DEFAULT_TARGETS,
  decomposeTarget,
  rewriteTarget,
  supportTarget,
  targetSource,
} from './demonstration-targets.ts';
import type { MalrTools } from './episode.ts';
import { parseAction } from './parse-action.ts';
import { parseQueries } from './parse-queries.ts';
import { malrConfig } from './test-support.ts';

const CIVIL = '中华人民共和国民法典';
const LEASE = '最高人民法院关于审理城镇房屋租赁合同纠纷案件具体应用法律若干问题的解释';
const corpus: Article[] = [
  { id: 'rent', law: CIVIL, title: '民法典一', text: '承租人拖欠租金的，出租人可以请求解除租赁合同。' },
  {
    id: 'repair',
    law: CIVIL,
    title: '民法典二',
    text: '租赁物需要维修，出租人拒绝维修，承租人可以减少租金。',
  },
  {
    id: 'wage',
    law: '劳动合同法',
    title: '劳动合同法一',
    text: '用人单位拖欠劳动报酬，劳动者可以请求支付令。',
  },
  {
    id: 'fire',
    law: '劳动合同法',
    title: '劳动合同法二',
    text: '劳动者拒绝加班，用人单位不得解除劳动合同，劳动报酬照付。',
  },
  {
    id: 'void',
    law: LEASE,
    title: '解释一',
    text: '租赁合同无效，出租人请求支付房屋占有使用费；承租人请求赔偿装修。',
  },
  { id: 'order', law: '民事诉讼法', title: '民事诉讼法一', text: '请求支付令，提出申请；劳动者与用人单位。' },
];
// Articles without any of the terms, so that every term tells something.
for (let i = 0; i < 14; i++) corpus.push({ id: `other-${i}`, title: 'An article', text: 'On other things.' });
const articles = new Map(corpus.map((article) => [article.id, article]));
const terms = mineTerms(corpus, { minCount: 2, minPmi: 0.5, minEntropy: 0.5 });
const source = targetSource(articles, terms);
const get = (id: string): Article => articles.get(id)!;
const noDropout = { ...DEFAULT_TARGETS, dropout: 0 };
const termsOf = (line: string): string[] => line.replace(/^.*：/, '').split(' ');

describe('rewriteTarget', () => {
  const question = '租金不给怎么办，承租人跑了，出租人怎么办？';

  it('names the law, copies at most two terms of the question first, then says unsaid ones', () => {
    const text = rewriteTarget('rewrite_single', get('rent'), question, source, stream(1), noDropout);
    expect(text.startsWith('民法典：')).toBe(true);
    const said = termsOf(text).map((term) => question.includes(term));
    expect(said.filter(Boolean)).toHaveLength(2);
    expect(said.slice(0, 2)).toEqual([true, true]);
    expect(said.length).toBeGreaterThan(2);
    for (const term of termsOf(text)) expect(get('rent').text).toContain(term);
  });

  it('supplements with what the question does not say', () => {
    const text = rewriteTarget('rewrite_supplement', get('rent'), question, source, stream(1), noDropout);
    expect(text).not.toContain('：');
    for (const term of termsOf(text)) expect(question).not.toContain(term);
  });

  it('leaves out about the share of terms that it is told to', () => {
    const plenty = { ...DEFAULT_TARGETS, terms: 99, copied: 99, maxChars: 999 };
    const count = (dropout: number, seed: number) =>
      termsOf(rewriteTarget('rewrite_single', get('rent'), '', source, stream(seed), { ...plenty, dropout }))
        .length;
    const all = count(0, 1);
    const mean = Array.from({ length: 400 }, (_, seed) => count(0.25, seed)).reduce((a, b) => a + b) / 400;
    expect(mean / all).toBeGreaterThan(0.7);
    expect(mean / all).toBeLessThan(0.8);
  });

  it('keeps to its length, but never drops the law and the first term', () => {
    const short = { ...noDropout, maxChars: 12 };
    for (let seed = 0; seed < 20; seed++) {
      const text = rewriteTarget('repair', get('wage'), '', source, stream(seed), short);
      expect(text.length <= 12 || termsOf(text).length === 1, text).toBe(true);
    }
  });
});

describe('terms that most articles have', () => {
  it('are said only for want of others', () => {
    const many = corpus.map((article) => ({ ...article, text: `${article.text}当事人出庭。` }));
    const common = targetSource(
      new Map(many.map((article) => [article.id, article])),
      mineTerms(many, { minCount: 2, minPmi: 0.5, minEntropy: 0.5 }),
    );
    expect(common.terms.idf('当事人出庭')).toBe(0);
    for (let seed = 0; seed < 20; seed++) {
      const rent = rewriteTarget('rewrite_single', common.articles.get('rent')!, '', common, stream(seed));
      expect(rent).not.toContain('当事人');
    }
    const other = rewriteTarget('repair', common.articles.get('other-1')!, '', common, stream(1));
    expect(other).toContain('当事人');
  });
});

describe('decomposeTarget', () => {
  it('gives one line for each of up to three golds, those that differ most', () => {
    // rent and repair share their terms, wage shares none with them: of two lines one is about wages.
    for (let seed = 0; seed < 10; seed++) {
      const golds = [get('rent'), get('repair'), get('wage'), get('fire')];
      const parsed = parseQueries('decompose', decomposeTarget(golds, '', source, stream(seed), noDropout), {
        maxDecomposed: 3,
        maxQueryChars: 200,
      });
      if (parsed.kind !== 'ok') throw new Error(parsed.reason);
      expect(parsed.queries).toHaveLength(3);
      expect(parsed.queries.some((query) => /劳动|用人/.test(query))).toBe(true);
      expect(parsed.queries.some((query) => /租/.test(query))).toBe(true);
    }
  });
});

describe('supportTarget', () => {
  it('writes for a gold in an interpretation when there is one', () => {
    const text = supportTarget([get('rent'), get('void')], '', source, stream(1), noDropout);
    expect(text.startsWith('城镇房屋租赁合同纠纷解释：')).toBe(true);
  });

  it('otherwise names the supporting law that shares most with the gold', () => {
    const lease = supportTarget([get('rent')], '', source, stream(1), noDropout);
    expect(lease.startsWith('城镇房屋租赁合同纠纷解释：')).toBe(true);
    const wages = supportTarget([get('wage')], '', source, stream(1), noDropout);
    expect(wages.startsWith('民事诉讼法：')).toBe(true);
  });
});

describe('planAction', () => {
  const state = { golds: [get('rent')], ran: [], round: 0, coverage: 0, poolSize: 0 };
  const shares = (input: Partial<typeof state>, draws = 2000) => {
    const random = stream(7);
    const counts = new Map<string, number>();
    for (let i = 0; i < draws; i++) {
      const action = planAction({ ...state, ...input }, ACTIONS, random);
      counts.set(action, (counts.get(action) ?? 0) + 1 / draws);
    }
    return (action: string) => counts.get(action) ?? 0;
  };

  it('gives every search some chance and never ends with an empty pool', () => {
    const share = shares({ coverage: 1, round: 3 });
    for (const action of ACTIONS) {
      if (action === 'terminate') expect(share(action)).toBe(0);
      else expect(share(action)).toBeGreaterThan(0.03);
    }
  });

  it('decomposes more with several golds and ends more as the pool covers them', () => {
    const several = shares({ golds: [get('rent'), get('wage')] });
    expect(several('decompose')).toBeGreaterThan(2 * shares({})('decompose'));
    const at = (coverage: number) => shares({ coverage, round: 1, poolSize: 10 })('terminate');
    // 0.1 + 0.1 · round + 0.6 · coverage
    expect(at(0)).toBeCloseTo(0.2, 1);
    expect(at(0.5)).toBeCloseTo(0.5, 1);
    expect(at(1)).toBeCloseTo(0.8, 1);
  });

  it('chooses only among what is offered', () => {
    const offered = offeredActions({ allowOriginal: false });
    const random = stream(3);
    for (let i = 0; i < 300; i++) expect(planAction(state, offered, random)).not.toBe('original');
  });
});

describe('demonstrate', () => {
  const query = { id: 'q', query: '房东收不到租金，又欠工资', gold: ['rent', 'wage'] };
  /** Finds the articles that contain a term of the search. */
  const tools: MalrTools = {
    retriever: {
      unknownTermShare: () => 0,
      search: async ({ rewrite }, k) =>
        corpus
          .map(
            ({ id, text }): Hit => ({
              id,
              score: termsOf(rewrite).filter((term) => text.includes(term)).length,
            }),
          )
          .filter(({ score }) => score > 0)
          .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1))
          .slice(0, k),
    },
    reranker: { rerank: async (_, hits, keep) => hits.slice(0, keep) },
    article: (id) => articles.get(id),
    rankPool: (searches) => [...new Set(searches.flat().map(({ id }) => id))],
  };
  const play = (seed: number, asked = query) =>
    Promise.all(
      Array.from({ length: 30 }, (_, rollout) =>
        demonstrate(asked, tools, { config: malrConfig, source, rollout, seed }),
      ),
    );

  it('gives every call of valid episodes, and the same for the same seed', async () => {
    const played = await play(5);
    expect(await play(5)).toEqual(played);
    expect(await play(6)).not.toEqual(played);
    expect(new Set(played.map((one) => JSON.stringify(one.calls))).size).toBeGreaterThan(20);
    expect(played.map(({ rollout }) => rollout)).toEqual(played.map((_, i) => i));
    const calls = played.flatMap((one) => one.calls);
    expect(new Set(calls.map(({ role }) => role)).size).toBe(6);
    for (const { role, round, messages, text } of calls) {
      expect(messages.map((message) => message.role)).toEqual(['system', 'user']);
      if (role === 'planner') {
        const parsed = parseAction(text, ACTIONS);
        expect(parsed.kind).toBe('ok');
        if (round === 0) expect(parsed).not.toEqual({ kind: 'ok', action: 'terminate' });
      } else {
        const limits = { maxDecomposed: 4, maxQueryChars: 200 };
        expect(parseQueries(role as 'decompose', text, limits).kind).toBe('ok');
      }
    }
  });

  it('writes for what is still missing', () => {
    const say = demonstrationPolicy({ query, source, random: stream(1), offered: ACTIONS });
    for (let i = 0; i < 10; i++) {
      const text = say({ role: 'rewrite_single', round: 1, pool: new Set(['rent']) });
      expect(text.startsWith('劳动合同法：')).toBe(true);
    }
  });

  it('refuses a gold article that is not in the corpus', async () => {
    await expect(play(5, { ...query, gold: ['lost'] })).rejects.toThrow(/lost of q/);
  });
});
