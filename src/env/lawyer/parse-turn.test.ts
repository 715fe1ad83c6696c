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
  it('is not looked for among thousands of braces', () => {
    // Of the square of the length this would take minutes.
    expect(parseTurn(`${'{"a":'.repeat(200_000)}}`, 'zh', 50).kind).toBe('failed');
  });
  it('of several objects is the last one; an action within a string or an object is none', () => {
    expect(parse('{"action":"STATUTE","query":"x","intent":""}\n{"action":"STOP"}')).toEqual(
      ok({ kind: 'STOP' }),
    );
    const quoted = JSON.stringify({ action: 'STATUTE', query: '{"action":"STOP"}', intent: '{' });
    expect(parse(quoted)).toEqual(ok({ kind: 'STATUTE', query: '{"action":"STOP"}', intent: '{' }));
  });
  it('cuts queries, intents and charges between characters, and white space to single blanks', () => {
    const long = { action: 'STATUTE', query: `\n甲\t 乙${'😀'.repeat(30)}`, intent: `${'量'.repeat(19)} 刑` };
    expect(parse(JSON.stringify(long))).toEqual(
      ok({ kind: 'STATUTE', query: `甲 乙${'😀'.repeat(17)}`, intent: '量'.repeat(19) }),
    );
    const charges = ['盗'.repeat(21), ' '];
    expect(parse(JSON.stringify({ action: 'PRECEDENT', query: 'x', charges }))).toEqual(
      ok({ kind: 'PRECEDENT', query: 'x', charges: ['盗'.repeat(20)] }),
    );
  });
  it.each([
    ['', 'no JSON object at its end'],
    [' \n', 'no JSON object at its end'],
    ['我想查盗窃', 'no JSON object at its end'],
    ['{"action":"STOP"', 'no JSON object at its end'],
    ['[{"action":"STOP"}]', 'no JSON object at its end'],
    ["{'action':'STOP'}", 'no JSON object at its end'],
    ['{}', 'not one of the three actions'],
    ['{"action":"stop"}', 'not one of the three actions'],
    ['{"action":"STATUTE","query":1,"intent":"量刑"}', 'not one of the three actions'],
    ['{"action":"PRECEDENT","query":"x","charges":"盗窃罪"}', 'not one of the three actions'],
    ['{"action":"PRECEDENT","query":"x","intent":"量刑"}', 'not one of the three actions'],
    [
      '{"action":"STATUTE","query":"x","intent":"量刑","more":{"action":"STOP"}}',
      'not one of the three actions',
    ],
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

it('texts of nothing but blanks or braces, as long as a policy may write, are read at once', () => {
  // The test times out where each blank is read again from every blank before it.
  const blanks = ' '.repeat(200_000);
  for (const text of [`a${blanks}b`, '{'.repeat(100_000), `\`\`\`${blanks}{`, `${'{'.repeat(10_000)}}`])
    for (const pack of LAWYER_PACKS) expect(parseTurn(text, pack, 20).kind).toBe('failed');
  expect(parseTurn(`${blanks}{"action":"STOP"}${blanks}\`\`\`${blanks}`, 'zh', 20)).toEqual(
    ok({ kind: 'STOP' }),
  );
});

it('garbage never throws, and what the oracle writes is read again', () => {
  const random = stream(1, 'parse-turn-test');
  const alphabet = [...'法案止：{}[]",:\\\n STATUTEactionquery盗窃0'];
  for (let i = 0; i < 2000; i++) {
    const text = Array.from({ length: random.int(30) }, () => alphabet[random.int(alphabet.length)]).join('');
    const units = Array.from({ length: random.int(30) }, () => random.int(0x10000));
    for (const pack of LAWYER_PACKS)
      for (const one of [text, String.fromCharCode(...units), `法：量刑：${String.fromCharCode(...units)}`])
        expect(['ok', 'failed']).toContain(parseTurn(one, pack, 20).kind);
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
