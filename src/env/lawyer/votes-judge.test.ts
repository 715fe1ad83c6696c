import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { precedent, statute } from './test-support.ts';
import type { Evidence } from './types.ts';
import { votesJudge } from './votes-judge.ts';

const asked = { query: '怎么判' };

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
  it('what every precedent applies decides nothing, nor does the order of the evidence', async () => {
    const judge = votesJudge({ fit: async () => 0, commonness: (id) => (id === 'z' ? 1 : 0) });
    const of = async (...evidence: Evidence[]) => (await judge.answer(asked, evidence)).articles;
    expect(await of(precedent(['z']), precedent(['z']))).toEqual([]);
    expect(await of(precedent(['z', 'b']), precedent(['z']), precedent(['z']))).toEqual(['b']);
    const found = [statute('a', 1), statute('b', 0), precedent(['a'])];
    expect(await of(...found)).toEqual(await of(...found.toReversed()));
  });
  it('names only what was found, whatever the evidence', async () => {
    const random = stream(1, 'votes-test');
    const ids = ['a', 'b', 'c', 'd', 'z'];
    for (let i = 0; i < 200; i++) {
      const some = () => ids.filter(() => random.int(3) === 0);
      const found = [
        ...some().map((id) => statute(id, random.int(9))),
        ...Array.from({ length: random.int(4) }, () => precedent(some())),
      ];
      const articles = await named(...found);
      expect(new Set(articles).size).toBe(articles.length);
      const held = new Set(found.flatMap((one) => one.articles));
      for (const id of articles) expect(held.has(id)).toBe(true);
    }
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
    const other = [{ ...statute('a'), text: '交通肇事后逃逸的' }];
    expect((await votes.answer(choice, other)).choices).toEqual(['A']);
    const line = { ...choice, query: '哪一项？A、抢劫 B、盗窃公私财物 C、诈骗' };
    expect((await votes.answer(line, evidence)).choices).toEqual(['B']);
    // Nothing found, nothing chosen: a first option is no answer.
    expect((await votes.answer(choice, [])).choices).toEqual([]);
    expect((await votes.answer({ ...choice, query: '哪一项？' }, evidence)).choices).toEqual([]);
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
