import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { loadCorpus } from '../../env/corpus.ts';
import type { Episode, Round } from '../../env/episode.ts';
import { createBm25Retriever } from '../../env/retrieval/bm25.ts';
import { alignment } from './alignment.ts';
import { answerAccuracy } from './answer-accuracy.ts';
import { LAWYER_REWARD } from './config.ts';
import { LAWYER_TERMS, type LawyerFacts, scoreLawyerEpisode } from './ledger.ts';
import { queryQuality } from './query-quality.ts';
import { repetition } from './repetition.ts';
import { likeness } from './similar-queries.ts';

const random = stream(1, 'lawyer-reward-test');
const QUERIES = ['盗窃 公私财物', '盗窃公私财物', '故意伤害 他人身体', '抢劫', '交通肇事 致人死亡'];

const roundOf = (query: string, ids: string[], agent = 'STATUTE'): Round => ({
  agent,
  queries: [query],
  dropped: [],
  newIds: ids,
  poolSize: ids.length,
  evidence: ids.map((id) => ({ source: 'statute', id, rank: 0, title: id, text: id, articles: [id] })),
});
const episodeOf = (rounds: Round[], answered: string[] | null, change: Partial<Episode> = {}): Episode => ({
  calls: [...rounds, null].map((round) => ({
    role: 'lawyer',
    round: 0,
    promptIds: [1],
    outputIds: Array(20).fill(1),
    logprobs: Array(20).fill(0),
    temperature: 1,
    finishReason: 'stop',
    text: '',
    action: round ? round.agent : 'STOP',
  })),
  rounds,
  pool: rounds.flatMap(({ newIds }) => newIds),
  termination: { kind: 'planner', reason: 'STOP' },
  answer: answered && { by: 'j', text: '', articles: answered, choices: [], number: null },
  correctives: 0,
  ...change,
});
const facts = (ranks: (number | null)[]): LawyerFacts => ({
  goldRanks: ranks,
  reference: null,
  judgment: null,
});
const query = { gold: ['a', 'b'] };
const total = (episode: Episode, ranks: (number | null)[]): number =>
  scoreLawyerEpisode(episode, query, LAWYER_REWARD, facts(ranks)).total;

describe('the ledger', () => {
  it('without gold: the choice by its letters, the evidence by the judgment, an invalid end by neither', () => {
    const asked = { gold: [], answer: { kind: 'choice' as const, choices: ['A'] } };
    const judged: LawyerFacts = { ...facts([]), judgment: { accuracy: 0, support: 2 / 3 } };
    const answer = { by: 'j', text: 'A', articles: [], choices: ['A'], number: null };
    const found = episodeOf([roundOf('q', ['a'])], [], { answer });
    const raws = (episode: Episode) =>
      Object.fromEntries(
        scoreLawyerEpisode(episode, asked, LAWYER_REWARD, judged).terms.map(({ name, raw }) => [name, raw]),
      );
    expect(raws(found)).toMatchObject({ answerAccuracy: 1, evidenceGain: 2 / 3, queryQuality: 0 });
    const invalid = { ...found, termination: { kind: 'invalid' as const, reason: 'x' } };
    expect(raws(invalid)).toMatchObject({ answerAccuracy: 0, evidenceGain: 0 });
    expect(() => scoreLawyerEpisode(found, asked, LAWYER_REWARD, facts([]))).toThrow(/not judged/);
  });

  it('adds up exactly, each term within its bounds, over random episodes', () => {
    for (let i = 0; i < 500; i++) {
      const rounds = Array.from({ length: random.int(6) }, () =>
        roundOf(
          QUERIES[random.int(QUERIES.length)]!,
          ['a', 'b', 'c', 'd'].filter(() => random.int(2) === 0),
          random.int(3) === 0 ? 'PRECEDENT' : 'STATUTE',
        ),
      );
      const kind = (['planner', 'cap', 'invalid'] as const)[random.int(3)]!;
      const answered = kind === 'invalid' ? null : ['a', 'b', 'c'].filter(() => random.int(2) === 0);
      const episode = episodeOf(rounds, answered, { termination: { kind, reason: '' } });
      const ranks = [random.int(400), random.int(2) === 0 ? null : random.int(9)];
      const { terms, total: sum } = scoreLawyerEpisode(episode, query, LAWYER_REWARD, facts(ranks));
      expect(terms.map(({ name }) => name)).toEqual([...LAWYER_TERMS]);
      expect(sum).toBe(terms.reduce((all, { value }) => all + value, 0));
      for (const { name, raw, weight, value } of terms) {
        expect(value).toBe(raw * weight + 0);
        expect(raw).toBeGreaterThanOrEqual(0);
        expect(raw).toBeLessThanOrEqual(name === 'repetition' ? Math.max(0, rounds.length - 1) : 1);
      }
      if (kind === 'invalid') expect(sum).toBeLessThanOrEqual(LAWYER_REWARD.weights.invalid);
    }
  });

  it('stopping at once loses to one useful search', () => {
    const atOnce = episodeOf([], []);
    const useful = episodeOf([roundOf('盗窃', ['a', 'c'])], ['a']);
    const useless = episodeOf([roundOf('盗窃', ['c', 'd'])], ['c']);
    expect(total(useful, [0, null])).toBeGreaterThan(total(atOnce, [null, null]) + 0.5);
    expect(total(useful, [0, null])).toBeGreaterThan(total(useless, [90, null]) + 0.5);
  });

  it('repeating a search never pays, word for word or nearly, found or refused', () => {
    for (const again of ['盗窃 公私财物', '盗窃公私财物。', '公私财物 盗窃公私财物']) {
      const first = roundOf('盗窃 公私财物', ['a', 'c']);
      const refused = { ...roundOf('', []), queries: [], dropped: [{ query: again, reason: 'repeated' }] };
      for (const second of [refused, roundOf(again, [])]) {
        const once = total(episodeOf([first], ['a']), [0, null]);
        expect(total(episodeOf([first, second], ['a']), [0, null])).toBeLessThan(once);
      }
    }
  });

  it('an invalid end loses to every valid one, and format cannot outweigh a wrong answer', () => {
    const invalid = episodeOf([roundOf('盗窃', ['a', 'b'])], null, {
      termination: { kind: 'invalid', reason: '' },
    });
    expect(total(invalid, [0, 0])).toBeLessThan(total(episodeOf([], []), [null, null]));
    const { weights } = LAWYER_REWARD;
    expect(weights.format + weights.alignment).toBeLessThan(0.2 * weights.answerAccuracy);
  });

  it('refuses a question without gold and a weight that is not finite', () => {
    const episode = episodeOf([], []);
    expect(() => scoreLawyerEpisode(episode, { gold: [] }, LAWYER_REWARD, facts([]))).toThrow(/without gold/);
    const weights = { ...LAWYER_REWARD.weights, format: Number.NaN };
    expect(() => scoreLawyerEpisode(episode, query, { ...LAWYER_REWARD, weights }, facts([]))).toThrow(
      /not finite/,
    );
  });
});

describe.skipIf(!existsSync('../shared/data/judge/statutes.jsonl'))(
  'on the articles of the Criminal Law',
  () => {
    it('a stuffed query does not beat a good one', async () => {
      const corpus = await loadCorpus('../shared/data/judge/statutes.jsonl');
      const retriever = createBm25Retriever(corpus, {
        k1: 1.5,
        b: 0.75,
        anchor: { original: 0, rewrite: 1 },
      });
      const stuffed =
        '中华人民共和国刑法 盗窃 抢劫 诈骗 故意伤害 故意杀人 交通肇事 贪污 受贿 强奸 绑架 敲诈勒索 非法经营 职务侵占 聚众斗殴 寻衅滋事 走私 贩卖 运输 制造 毒品 非法持有 枪支 危险驾驶';
      for (const [good, gold] of [
        ['盗窃公私财物，数额较大的', 'xf264'],
        ['故意伤害他人身体', 'xf234'],
        ['违反交通运输管理法规，因而发生重大事故', 'xf133'],
        ['以非法占有为目的，诈骗公私财物', 'xf266'],
      ] as const) {
        const value = (asked: string): number => {
          const rank = retriever.ranksOf({ original: '', rewrite: asked }, [gold])[0]! - 1;
          return queryQuality(episodeOf([roundOf(asked, [])], []), [rank], LAWYER_REWARD.queryAllowance);
        };
        expect(value(good)).toBeGreaterThan(0.5);
        expect(value(stuffed)).toBeLessThan(value(good));
        expect(value(`${good} ${stuffed}`)).toBeLessThan(value(good));
      }
    });
  },
);

describe('the terms', () => {
  const gold = new Set(['a', 'b']);
  const given = (articles: string[], choices: string[] = [], number: number | null = null) => ({
    by: 'j',
    text: '',
    articles,
    choices,
    number,
  });

  it('answers: F1 or exact; choices by overlap; numbers within the tolerance, then less; text by judgment', () => {
    const f1 = (articles: string[]) => answerAccuracy(given(articles), gold, undefined, 'f1', null);
    expect([f1(['a', 'b']), f1(['a']), f1(['a', 'c']), f1(['c']), f1([])]).toEqual([1, 2 / 3, 0.5, 0, 0]);
    const exact = (articles: string[]) =>
      answerAccuracy(given(articles), gold, { kind: 'articles' }, 'exact', null);
    expect([exact(['b', 'a']), exact(['a']), exact(['a', 'b', 'c'])]).toEqual([1, 0, 0]);
    const choice = { kind: 'choice' as const, choices: ['A', 'C'] };
    const chosen = (choices: string[]) => answerAccuracy(given([], choices), gold, choice, 'f1', null);
    expect([chosen(['A', 'C']), chosen(['A']), chosen(['B'])]).toEqual([1, 0.5, 0]);
    const term = { kind: 'number' as const, value: 20, tolerance: 2 };
    const months = (number: number | null) => answerAccuracy(given([], [], number), gold, term, 'f1', null);
    expect([months(22), months(18), months(32), months(200), months(null)]).toEqual([1, 1, 0.5, 0, 0]);
    const text = { kind: 'text' as const, text: 'x' };
    expect(() => answerAccuracy(given([]), gold, text, 'f1', null)).toThrow(/was not judged/);
    expect(answerAccuracy(given([]), gold, text, 'f1', { accuracy: 2 / 3, support: 1 })).toBe(2 / 3);
    expect(answerAccuracy(null, gold, text, 'f1', null)).toBe(0);
  });

  it('alignment: 1 for the same searches, less for another order, source or query, 0 without a reference', () => {
    const reference = [
      { kind: 'STATUTE' as const, query: '盗窃公私财物' },
      { kind: 'PRECEDENT' as const, query: '入户盗窃' },
    ];
    const own = (...asked: [string, string][]) =>
      alignment({ rounds: asked.map(([agent, text]) => roundOf(text, [], agent)) }, reference);
    const same = own(['STATUTE', '盗窃 公私财物'], ['PRECEDENT', '入户盗窃']);
    expect(same).toBe(1);
    expect(own(['STATUTE', '盗窃 公私财物'])).toBe(0.5);
    expect(own()).toBe(0);
    expect(own(['PRECEDENT', '入户盗窃'], ['STATUTE', '盗窃 公私财物'])).toBe(0.5);
    expect(alignment({ rounds: [] }, null)).toBe(0);
  });

  it('likeness is that of the pairs of characters', () => {
    expect([likeness('盗窃财物', '盗窃 财物'), likeness('盗窃财物', '抢劫'), likeness('', '')]).toEqual([
      1, 0, 1,
    ]);
    expect(likeness('盗窃财物', '盗窃公物')).toBeCloseTo(1 / 3);
    expect(repetition({ rounds: [roundOf('盗窃', []), roundOf('盗窃', [], 'PRECEDENT')] })).toBe(0);
  });
});
