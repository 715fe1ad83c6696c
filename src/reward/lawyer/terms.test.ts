import { describe, expect, it } from 'vitest';
import type { AgentCall, Episode, Round } from '../../env/episode.ts';
import { LAWYER_REWARD, type LawyerRewardConfig } from './config.ts';
import { evidenceGain } from './evidence-gain.ts';
import { format } from './format.ts';
import { type LawyerFacts, scoreLawyerEpisode } from './ledger.ts';
import { verbosity } from './verbosity.ts';

const callOf = (action: string | null, tokens = 20): AgentCall => ({
  role: 'lawyer',
  round: 0,
  promptIds: [1],
  outputIds: Array(tokens).fill(1),
  logprobs: Array(tokens).fill(0),
  temperature: 1,
  finishReason: 'stop',
  text: '',
  action,
});
/** A search by what it shows: ids, each with the articles that it is or applies. */
const roundOf = (agent: 'STATUTE' | 'PRECEDENT', query: string, shown: Record<string, string[]>): Round => ({
  agent,
  queries: [query],
  dropped: [],
  newIds: Object.values(shown).flat(),
  poolSize: 0,
  evidence: Object.entries(shown).map(([id, articles], rank) => ({
    source: agent === 'STATUTE' ? 'statute' : 'precedent',
    id,
    rank,
    title: id,
    text: id,
    articles,
  })),
});
const episodeOf = (calls: AgentCall[], rounds: Round[], articles: string[]): Episode => ({
  calls,
  rounds,
  pool: [],
  termination: { kind: 'planner', reason: 'STOP' },
  answer: { by: 'j', text: '', articles, choices: [], number: null },
  correctives: calls.filter(({ action }) => action === null).length,
});
const gold = new Set(['a', 'b']);

it('verbosity: nothing up to the allowance, then in allowances, at most 1, over all calls together', () => {
  const of = (...tokens: number[]) => verbosity({ calls: tokens.map((n) => callOf('STATUTE', n)) }, 100);
  expect([of(), of(100), of(60, 40), of(101), of(75, 75), of(200), of(900)]).toEqual([
    0, 0, 0, 0.01, 0.5, 1, 1,
  ]);
});

it('format: the share of the turns that could be read', () => {
  const termination = { kind: 'planner' as const, reason: 'STOP' };
  const of = (...actions: (string | null)[]) =>
    format({ calls: actions.map((action) => callOf(action)), termination });
  expect([of(), of('STOP'), of(null, 'STOP'), of('STATUTE', null, 'PRECEDENT', 'STOP')]).toEqual([
    0, 1, 0.5, 0.75,
  ]);
  expect(format({ calls: [callOf('STATUTE')], termination: { kind: 'invalid', reason: '' } })).toBe(0);
});

it('evidenceGain: gold shown as a statute or applied by a case, each once; what else is shown is nothing', () => {
  const of = (...rounds: Round[]) => evidenceGain({ rounds }, gold, null);
  expect(of()).toBe(0);
  expect(of(roundOf('STATUTE', 'q', { a: ['a'], c: ['c'] }))).toBe(0.5);
  expect(of(roundOf('PRECEDENT', 'q', { case1: ['b', 'c'], case2: ['b'] }))).toBe(0.5);
  expect(of(roundOf('STATUTE', 'q', { a: ['a'] }), roundOf('PRECEDENT', 'q', { case1: ['a', 'b'] }))).toBe(1);
  expect(of(roundOf('STATUTE', 'q', { a: ['a'] }), roundOf('STATUTE', 'p', { a: ['a'] }))).toBe(0.5);
  expect(of(roundOf('PRECEDENT', 'q', { a: [] }))).toBe(0);
  const judgment = { accuracy: 0, support: 2 / 3 };
  const judged = (...rounds: Round[]) => evidenceGain({ rounds }, new Set(), judgment);
  expect([judged(), judged(roundOf('STATUTE', 'q', { a: ['a'] }))]).toEqual([0, 2 / 3]);
  expect(evidenceGain({ rounds: [roundOf('STATUTE', 'q', { c: ['c'] })] }, gold, judgment)).toBe(0);
  expect(() => evidenceGain({ rounds: [] }, new Set(), null)).toThrow(/was not judged/);
});

describe('the ledger', () => {
  const facts: LawyerFacts = {
    goldRanks: [0, 6],
    reference: [{ kind: 'STATUTE', query: '盗窃公私财物' }],
    judgment: null,
  };
  const searched = roundOf('STATUTE', '盗窃公私财物', { a: ['a'], c: ['c'] });
  const again = roundOf('STATUTE', '盗窃 公私财物', {});
  const long = [callOf('STATUTE', 400), callOf(null, 200), callOf('STATUTE', 100), callOf('STOP', 68)];
  const episode = episodeOf(long, [searched, again], ['a']);
  const score = (config: LawyerRewardConfig, of = episode, known = facts) =>
    scoreLawyerEpisode(of, { gold: ['a', 'b'] }, config, known);

  it('holds each term by its name: one episode, by hand', () => {
    const raws = Object.fromEntries(score(LAWYER_REWARD).terms.map(({ name, raw }) => [name, raw]));
    expect(raws).toEqual({
      answerAccuracy: 2 / 3,
      evidenceGain: 0.5,
      queryQuality: 0.75,
      // STATUTE STATUTE against STATUTE: one too many of two; the query is the same.
      alignment: 0.75,
      format: 0.75,
      // 768 tokens.
      verbosity: 0.5,
      repetition: 1,
      invalid: 0,
    });
  });

  it('keeps a term of weight 0 with its raw value, worth 0; all of them make a reward of 0, never −0', () => {
    const { terms: full } = score(LAWYER_REWARD);
    for (const { name, raw, value } of full) {
      const { terms, total } = score({
        ...LAWYER_REWARD,
        weights: { ...LAWYER_REWARD.weights, [name]: 0 },
      });
      const without = terms.find((term) => term.name === name)!;
      expect(without).toEqual({ name, raw, weight: 0, value: 0 });
      expect(terms.filter((term) => term.name !== name)).toEqual(full.filter((term) => term.name !== name));
      expect(total).toBeCloseTo(full.reduce((sum, term) => sum + term.value, 0) - value, 12);
    }
    const nothing = Object.fromEntries(Object.keys(LAWYER_REWARD.weights).map((name) => [name, -0]));
    const weights = nothing as unknown as LawyerRewardConfig['weights'];
    const { terms, total } = score({ ...LAWYER_REWARD, weights });
    for (const { value } of terms) expect(value).toBe(0);
    expect(total).toBe(0);
  });

  it('a further search that brings nothing pays nothing where every turn could be read', () => {
    const known = { ...facts, reference: null, goldRanks: [0, null] };
    const [search, stop] = [callOf('STATUTE'), callOf('STOP')];
    const once = score(LAWYER_REWARD, episodeOf([search, stop], [searched], ['a']), known).total;
    for (const more of [
      roundOf('STATUTE', '交通肇事', { c: ['c'] }),
      roundOf('PRECEDENT', '入户', { case1: ['a'] }),
      roundOf('STATUTE', '盗'.repeat(200), {}),
    ]) {
      const twice = episodeOf([search, search, stop], [searched, more], ['a']);
      expect(score(LAWYER_REWARD, twice, known).total).toBeLessThanOrEqual(once);
    }
  });

  it('no form, imitation, silence or aim makes a wrong answer without evidence beat a right one with it', () => {
    const { weights } = LAWYER_REWARD;
    const best = { ...facts, goldRanks: [0, 0] };
    const pretty = episodeOf([callOf('STATUTE', 1), callOf('STOP', 1)], [{ ...searched, evidence: [] }], []);
    const wordy = episodeOf(
      [callOf(null, 2000), callOf('STATUTE', 20)],
      [roundOf('STATUTE', '盗'.repeat(200), { a: ['a'], b: ['b'] })],
      ['a', 'b'],
    );
    expect(score(LAWYER_REWARD, pretty, best).total).toBeLessThan(score(LAWYER_REWARD, wordy, best).total);
    expect(weights.format).toBeLessThanOrEqual(weights.answerAccuracy / 10);
  });
});
