import { describe, expect, it } from 'vitest';
import { chargesNamed } from './charges.ts';
import { modelJudge, votesJudge } from './judge.ts';
import { lastObject } from './last-object.ts';
import type { Evidence } from './types.ts';

const says = (text: string) => ({ name: 'm', chat: async () => text });
const statute = (id: string, rank = 0): Evidence => ({
  source: 'statute',
  id,
  rank,
  title: id,
  text: id,
  articles: [id],
});
const precedent = (articles: string[], text = '', title = ''): Evidence => ({
  source: 'precedent',
  id: 'p',
  rank: 0,
  title,
  text,
  articles,
});
const asked = { query: '怎么判' };

describe('the judge by a model', () => {
  const judge = (text: string) => modelJudge({ chat: says(text), maxTokens: 9, temperature: 0 });
  const evidence = [statute('a'), precedent(['b', 'c'])];
  it('cites evidence by its number; a precedent stands for what it applies', async () => {
    const said =
      '理由 {略}。\n{"answer":"{是}","articles":["1","[2]",1],"choices":["b","A, C"],"number":6,"why":""} 完';
    expect(await judge(said).answer(asked, evidence)).toEqual({
      text: said,
      articles: ['a', 'b', 'c'],
      choices: ['A', 'B', 'C'],
      number: 6,
    });
  });
  it('rejects for evidence that is not there, and for no answer', async () => {
    for (const number of ['3', '0', 'x', '1.5'])
      await expect(judge(`{"answer":"是","articles":["${number}"]}`).answer(asked, evidence)).rejects.toThrow(
        `cites evidence ${number}, there are 2`,
      );
    for (const text of ['', '是', '{"answer":""}', '{"articles":[]}', '{"answer":"是","number":"6"}'])
      await expect(judge(text).answer(asked, evidence)).rejects.toThrow(/^m: no answer in the form/);
  });
});

describe('the judge by votes', () => {
  const fits: Record<string, number> = { a: 0.9, b: 0.1, c: 0.85 };
  const votes = votesJudge({
    fit: async (_, id) => fits[id] ?? 0,
    commonness: (id) => (id === 'z' ? 0.95 : 0.05),
  });
  const named = async (...evidence: Evidence[]) => (await votes.answer(asked, evidence)).articles;
  it('follows the evidence: fit and place, precedents, and not what all of them apply', async () => {
    expect(await named(statute('a'), statute('b'))).toEqual(['a']);
    expect(await named(statute('b'), statute('a'))).toEqual(['a']);
    expect(await named(statute('a'), statute('c'))).toEqual(['a', 'c']);
    expect(await named(statute('c'), statute('a', 4))).toEqual(['c']);
    expect(await named(precedent(['b', 'z']), precedent(['b', 'z']))).toEqual(['b']);
    expect(await named()).toEqual([]);
    expect(votes.name).toContain('stand-in');
  });
  it('names an article for each charge that the question ends with, and heeds precedents about it', async () => {
    const about: Record<string, string[]> = { 盗窃: ['a', 'b'], 诈骗: ['c', 'd'] };
    const judge = votesJudge({
      fit: async (text, id) => (about[text]?.includes(id) ? 1 : 0.1),
      commonness: () => 0,
    });
    const question = { query: '事实:甲……\n罪名:盗窃;诈骗。' };
    const found = [statute('a'), statute('b', 3), statute('c', 4), statute('d', 2)];
    const of = async (...evidence: Evidence[]) => (await judge.answer(question, evidence)).articles;
    expect(await of(...found)).toEqual(['a', 'd', 'c']);
    expect(await of(statute('a'), statute('b', 3))).toEqual(['a']);
    // What speaks for c beside d: a precedent on fraud does, one on theft does not.
    expect(await of(...found, precedent(['c'], '', '诈骗罪'))).toEqual(['a', 'c']);
    expect(await of(...found, precedent(['c'], '', '抢劫罪'))).toEqual(['a', 'd', 'c']);
  });
  it('chooses the option that the evidence holds', async () => {
    const choice = {
      query: '哪一项？\nA. 交通肇事\nB. 盗窃公私财物',
      answer: { kind: 'choice' as const, choices: ['B'] },
    };
    const evidence = [{ ...statute('a'), text: '盗窃公私财物的' }];
    expect((await votes.answer(choice, evidence)).choices).toEqual(['B']);
    expect((await votes.answer(asked, evidence)).choices).toEqual([]);
  });
  it('answers with the median term of the precedents, in months', async () => {
    const number = { query: '几个月', answer: { kind: 'number' as const, value: 1, tolerance: 0 } };
    const of = async (...texts: string[]) =>
      (
        await votes.answer(
          number,
          texts.map((text) => precedent([], text)),
        )
      ).number;
    expect(await of('有期徒刑6个月', '有期徒刑24个月，缓刑36个月', '拘役5个月', '免予刑事处罚')).toBe(6);
    expect(await of('有期徒刑3年6个月')).toBe(42);
    expect(await of('有期徒刑三年', '管制一年')).toBe(24);
    expect(await of('拘役2.5个月')).toBe(2.5);
    expect(await of('18 months in prison')).toBe(18);
    expect(await of('死刑', '罚金2000元')).toBe(null);
    expect(await of()).toBe(null);
  });
});

it('charges are those at the end of the question', () => {
  expect(chargesNamed('事实:甲……\r\n罪名:盗窃;引诱、教唆、欺骗他人吸毒。')).toEqual([
    '盗窃',
    '引诱、教唆、欺骗他人吸毒',
  ]);
  expect(chargesNamed('甲的罪名：受贿\n是否成立？')).toEqual([]);
  for (const question of ['', '罪名:', '罪名:。;', '怎么判']) expect(chargesNamed(question)).toEqual([]);
});

it('the last object of a text is read whatever stands around it', () => {
  expect(lastObject('{"a":1} {"b":{"c":"}{"}}')).toEqual({ b: { c: '}{' } });
  expect(lastObject('<think>{x}</think>\n```json\n{"a":1}\n```')).toEqual({ a: 1 });
  for (const text of ['', '{', '}{', '[1]', '{x}']) expect(() => lastObject(text)).toThrow('no JSON object');
});
