import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { LAWYER_PACKS } from './config.ts';
import { turnText } from './oracle.ts';
import { parseTurn } from './parse-turn.ts';
import type { LawyerAction } from './types.ts';

const ok = (action: LawyerAction) => ({ kind: 'ok', action });

describe('the JSON form', () => {
  const parse = (text: string) => parseTurn(text, 'zh', 20);
  it('is the last object, whatever thought or fence is around it', () => {
    const statute = ok({ kind: 'STATUTE', query: '盗窃', intent: '量刑' });
    const text = '{"action":"STATUTE","query":" 盗窃 ","intent":"量刑"}';
    for (const whole of [text, `先想想 {不是}。\n${text}`, `\`\`\`json\n${text}\n\`\`\``])
      expect(parse(whole)).toEqual(statute);
    expect(parse('{"action":"STOP"}')).toEqual(ok({ kind: 'STOP' }));
    expect(parse('{"action":"PRECEDENT","query":"入户","charges":["盗窃罪"," "]}')).toEqual(
      ok({ kind: 'PRECEDENT', query: '入户', charges: ['盗窃罪'] }),
    );
    expect(parse('{"action":"PRECEDENT","query":"入户"}')).toEqual(
      ok({ kind: 'PRECEDENT', query: '入户', charges: [] }),
    );
  });
  it.each([
    ['', 'no JSON object at its end'],
    ['{"action":"STOP"} 就这样', 'no JSON object at its end'],
    ['{"action":"SEARCH","query":"x"}', 'not one of the three actions'],
    ['{"action":"STATUTE","query":"x"}', 'not one of the three actions'],
    ['{"action":"STOP","query":"x"}', 'not one of the three actions'],
    ['{"action":"STATUTE","query":"  ","intent":"量刑"}', 'an empty query'],
  ])('%s: %s', (text, reason) => expect(parse(text)).toEqual({ kind: 'failed', reason }));
});

describe('the compact form', () => {
  const parse = (text: string) => parseTurn(text, 'zh-compact', 8);
  it('is one line; a query may hold colons', () => {
    expect(parse('法：量刑：刑法：盗窃 财物')).toEqual(
      ok({ kind: 'STATUTE', query: '刑法：盗窃 财物', intent: '量刑' }),
    );
    expect(parse('法：量刑：刑法：盗窃 财物 数额')).toMatchObject({ action: { query: '刑法：盗窃 财物' } });
    expect(parse('案：入户盗窃')).toEqual(ok({ kind: 'PRECEDENT', query: '入户盗窃', charges: [] }));
    expect(parse('止\n')).toEqual(ok({ kind: 'STOP' }));
  });
  it.each(['', '停', '法：盗窃', '法：一二三四五六七八九：盗窃', '案：甲\n乙', '法：量刑：甲\n乙'])(
    '%j is none',
    (text) => expect(parse(text)).toEqual({ kind: 'failed', reason: 'not one of the three forms' }),
  );
  it('has no empty query', () =>
    expect(parse('案： ')).toEqual({ kind: 'failed', reason: 'an empty query' }));
});

it('garbage never throws, and what the oracle writes is read again', () => {
  const random = stream(1, 'parse-turn-test');
  const alphabet = [...'法案止：{}[]",:\\\n STATUTEactionquery盗窃0'];
  for (let i = 0; i < 2000; i++) {
    const text = Array.from({ length: random.int(30) }, () => alphabet[random.int(alphabet.length)]).join('');
    for (const pack of LAWYER_PACKS) expect(['ok', 'failed']).toContain(parseTurn(text, pack, 20).kind);
  }
  const actions: LawyerAction[] = [
    { kind: 'STATUTE', query: '盗窃 "财物"', intent: '量刑' },
    { kind: 'PRECEDENT', query: '入户', charges: [] },
    { kind: 'STOP' },
  ];
  for (const prompts of LAWYER_PACKS)
    for (const action of actions)
      expect(parseTurn(turnText(action, { prompts }), prompts, 50)).toEqual(ok(action));
});
