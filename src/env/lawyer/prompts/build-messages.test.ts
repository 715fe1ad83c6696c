import { describe, expect, it } from 'vitest';
import type { Round } from '../../episode.ts';
import { LAWYER_PACKS } from '../config.ts';
import type { Evidence } from '../types.ts';
import {
  buildLawyerMessages,
  cutQuestion,
  type EarlierCall,
  REPEATED,
  UNKNOWN_TERMS,
} from './build-messages.ts';
import { LAWYER_PROMPTS } from './packs.ts';

const piece = (source: Evidence['source'], text: string): Evidence => ({
  source,
  id: 'x',
  rank: 0,
  title: '标题',
  text,
  articles: [],
});
const round = (evidence: Evidence[], reason?: string): Round => ({
  agent: 'STATUTE',
  queries: reason === undefined ? ['盗窃'] : [],
  dropped: reason === undefined ? [] : [{ query: '盗窃', reason }],
  newIds: [],
  poolSize: 0,
  evidence,
});
const call = (action: string | null, text = 't', finishReason = 'stop'): EarlierCall => ({
  action,
  text,
  finishReason,
});
const build = (
  prompts: (typeof LAWYER_PACKS)[number],
  calls: EarlierCall[],
  rounds: Round[],
  query = '问题',
) => buildLawyerMessages(query, calls, rounds, { prompts, maxTurns: 7, maxQueryChars: 9 });
const last = (...args: Parameters<typeof build>) => build(...args).at(-1)!.content;

describe.each(['zh', 'en'] as const)('pack %s', (pack) => {
  it('is a conversation: own turns as they were said, each answered, turn n of N', () => {
    const calls = [call('STATUTE', '想{query}…{"action"}'), call(null, 'hm'), call('PRECEDENT', '再')];
    const messages = build(pack, calls, [
      round([piece('statute', '甲')]),
      round([piece('precedent', '乙'), piece('statute', '丙')]),
    ]);
    expect(messages.map(({ role }) => role).join(' ')).toBe(
      'system user assistant user assistant user assistant user',
    );
    expect(messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)).toEqual(
      calls.map(({ text }) => text),
    );
    const users = messages.filter(({ role }) => role === 'user').map(({ content }) => content);
    expect(users[0]).toContain('问题');
    for (const [i, content] of users.entries())
      if (i !== 2) expect(content).toContain(pack === 'zh' ? `第${i + 1}轮，共7轮` : `Turn ${i + 1} of 7`);
    expect(users[1]).toMatch(pack === 'zh' ? /1\. 标题：甲/ : /1\. 标题: 甲/);
    expect(users[2]).toContain('no JSON object at its end');
    // The malformed turn has no round: what came of the second search follows the third turn.
    expect(users[3]).toMatch(
      pack === 'zh' ? /1\. 判例 标题：乙\n2\. 标题：丙/ : /1\. Judgment, 标题: 乙\n2\. 标题: 丙/,
    );
  });

  it('names the three forms at the start and after a turn that cannot be read, with the reason', () => {
    const calls = [
      ['说', 'stop', 'no JSON object at its end'],
      ['{"action":"STOP"}', 'length', 'cut by the length limit'],
      ['{"action":"GO"}', 'stop', 'not one of the three actions'],
      ['{"action":"PRECEDENT","query":" "}', 'stop', 'an empty query'],
    ] as const;
    for (const [text, finishReason, reason] of calls) {
      const [system, , , told] = build(pack, [call(null, text, finishReason)], []);
      expect(told!.content).toContain(`${reason}`);
      for (const { content } of [system!, told!])
        for (const action of ['STATUTE', 'PRECEDENT', 'STOP'])
          expect(content).toContain(`{"action":"${action}"`);
    }
  });

  it('fills in only its own places: braces in the question and in evidence stay', () => {
    expect(build(pack, [], [], '{turn} {evidence} $& {x}')[1]!.content).toMatch(
      /^\{turn\} \{evidence\} \$& \{x\}\n/,
    );
    expect(last(pack, [call('STATUTE')], [round([piece('statute', '{turns} $1 {title}')])])).toContain(
      '{turns} $1 {title}',
    );
  });
});

describe('the compact pack', () => {
  it('is one message: the question, what each turn brought, the turn', () => {
    const calls = [call('STATUTE'), call(null), call('PRECEDENT')];
    const rounds = [
      round([piece('statute', '甲'), piece('statute', '乙')]),
      round([piece('precedent', '丙')]),
    ];
    expect(build('zh-compact', calls, rounds)).toEqual([
      { role: 'system', content: '律师' },
      { role: 'user', content: '问题｜法甲；乙｜误｜案丙｜轮4' },
    ]);
    expect(last('zh-compact', [], [])).toBe('问题｜轮1');
  });

  it('cuts a long question to its beginning and its end, between characters', () => {
    const long = `${'甲'.repeat(72)}${'乙'.repeat(500)}${'😀'.repeat(40)}`;
    expect(cutQuestion(long)).toBe(`${'甲'.repeat(72)}…${'😀'.repeat(40)}`);
    expect(last('zh-compact', [], [], long)).toBe(`${cutQuestion(long)}｜轮1`);
    const whole = '中'.repeat(112);
    expect(cutQuestion(whole)).toBe(whole);
    expect(cutQuestion(`${whole}中`)).toHaveLength(113);
    expect(cutQuestion(`${whole} \r\n`)).toBe(whole);
    // An instruct model reads all of it.
    expect(build('zh', [], [], long)[1]!.content).toContain(long);
  });
});

it.each(LAWYER_PACKS)(
  '%s: a search that brought nothing, one made before and one of unknown words read apart',
  (pack) => {
    const after = (one: Round) => last(pack, [call('STATUTE')], [one]);
    const texts = [
      round([piece('statute', '甲')]),
      round([]),
      round([], REPEATED),
      round([], UNKNOWN_TERMS),
    ].map(after);
    expect(new Set(texts).size).toBe(4);
    for (const text of [...texts, last(pack, [call(null)], [])]) expect(text).not.toMatch(/\{\w+\}/);
    expect(texts[1]).toContain(LAWYER_PROMPTS[pack].nothing.split('\n')[0]);
  },
);

it('an older round without evidence reads as one that found nothing', () => {
  const { evidence: _, ...bare } = round([]);
  expect(last('zh-compact', [call('STATUTE')], [bare])).toBe('问题｜法无｜轮2');
});
