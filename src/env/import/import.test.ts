import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../base/test-support.ts';
import { corpusOf, loadCorpus } from '../corpus.ts';
import { articleIndex, citationsIn } from './article-index.ts';
import { importPrecedents } from './import-precedents.ts';
import { expectedAnswer, importQuestions, mapRows, splitQuestions } from './import-questions.ts';

const scratch = temporaryFolder();
const corpus = corpusOf([
  { id: 'c133', title: '中华人民共和国刑法第一百三十三条', text: 'x' },
  { id: 'c133-1', title: '中华人民共和国刑法第一百三十三条之一', text: 'x' },
  { id: 'c264', title: '中华人民共和国刑法第二百六十四条', text: 'x' },
  { id: 'm563', title: '民法典第563条', law: '中华人民共和国民法典', text: 'x' },
]);
const file = (name: string, rows: object[]): string => {
  const path = join(scratch, name);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return path;
};

describe('citations', () => {
  it.each<[string, [string, string][]]>([
    [
      '法条:刑法第264、353条',
      [
        ['刑法', '264'],
        ['刑法', '353'],
      ],
    ],
    [
      '依照《中华人民共和国刑法》第一百三十三条之一、第二百六十四条',
      [
        ['中华人民共和国刑法', '133-1'],
        ['中华人民共和国刑法', '264'],
      ],
    ],
    [
      '《民法典》第563条和第五百六十六条',
      [
        ['民法典', '563'],
        ['民法典', '566'],
      ],
    ],
    // The forms of LawBench 3-2: 的 before the number, a class of laws before the name, 本法.
    [
      '根据民商法类中的合同法的第三十条，并违反我国刑法第264条和本法第133条之一',
      [
        ['合同法', '30'],
        ['刑法', '264'],
        ['刑法', '133-1'],
      ],
    ],
    ['根据《刑法》的第264条', [['刑法', '264']]],
    ['没有引用', []],
  ])('%s', (text, expected) => {
    expect(citationsIn(text).map(({ law, number }) => [law, number])).toEqual(expected);
  });
  it('are found by short and full name, and without one in a corpus of one law', () => {
    const index = articleIndex(corpus);
    expect(index.find({ law: '刑法', number: '133-1' })).toBe('c133-1');
    expect(index.find({ law: '《中华人民共和国民法典》', number: '563' })).toBe('m563');
    expect(index.find({ law: '', number: '264' })).toBe(null);
    expect(index.find({ law: '刑法', number: '999' })).toBe(null);
    expect(articleIndex({ articles: corpus.articles.slice(0, 3) }).find({ law: '', number: '264' })).toBe(
      'c264',
    );
  });
});

describe('questions', () => {
  it('are kept with their gold; what cannot be mapped is left out, with the reason', () => {
    const rows = [
      { id: 'a', query: '偷', answer: '刑法第264条' },
      { id: 'b', query: '偷', answer: '不知道' },
      { id: 'c', query: '偷', answer: '刑法第264、999条' },
      { id: 'd', query: '', answer: '刑法第264条' },
      { id: 'a', query: '偷', answer: '刑法第264条' },
    ];
    const { queries, report } = mapRows(rows, corpus);
    expect(queries).toEqual([{ id: 'a', query: '偷', gold: ['c264'], answer: { kind: 'articles' } }]);
    expect(report).toMatchObject({ read: 5, kept: 1 });
    expect(
      Object.fromEntries(Object.entries(report.leftOut).map(([why, { first }]) => [why, first])),
    ).toEqual({
      'neither the answer nor what the question names cites an article': ['b'],
      'an article that it cites is not in the corpus': ['c'],
      'the question is empty': ['d'],
      'the id stands there twice': ['a'],
    });
  });
  it('without gold are kept where that is asked for, and are never held out', () => {
    const rows = [
      ...['a', 'b', 'c', 'd'].map((id) => ({ id, query: `偷${id}`, answer: '刑法第264条' })),
      { id: 'exam', query: '何罪?A:盗窃;B:抢劫', answer: '正确答案:A。' },
      { id: 'term', query: '甲偷手机', answer: '刑期:4个月' },
      { id: 'text', query: '为什么', answer: ' 因为。' },
      { id: 'nothing', query: '为什么呢', answer: ' ' },
      { id: 'other', query: '抢', answer: '刑法第999条' },
    ];
    const { queries, report } = mapRows(rows, corpus, { withoutGold: true });
    expect(queries.slice(4).map(({ id, gold, answer }) => [id, gold, answer])).toEqual([
      ['exam', [], { kind: 'choice', choices: ['A'] }],
      ['term', [], { kind: 'number', value: 4, tolerance: 1 }],
      ['text', [], { kind: 'text', text: '因为。' }],
    ]);
    expect(Object.values(report.leftOut).flatMap(({ first }) => first)).toEqual(['nothing', 'other']);
    for (let seed = 0; seed < 20; seed++) {
      const { train, heldOut } = splitQuestions(queries, 0.5, seed);
      expect([train.length, heldOut.length]).toEqual([5, 2]);
      expect(heldOut.every(({ gold }) => gold.length > 0)).toBe(true);
    }
    const same = [...queries, { ...queries[4]!, id: 'same', query: '偷a' }];
    for (let seed = 0; seed < 20; seed++) {
      const { train, heldOut } = splitQuestions(same, 0.5, seed);
      expect(train.some(({ id }) => id === 'same')).toBe(!heldOut.some(({ id }) => id === 'a'));
      expect(heldOut.some(({ id }) => id === 'same')).toBe(false);
    }
  });
  it('say what a right answer is', () => {
    expect(expectedAnswer('正确答案：B。')).toEqual({ kind: 'choice', choices: ['B'] });
    expect(expectedAnswer('A、C 依据刑法第264条')).toEqual({ kind: 'choice', choices: ['A', 'C'] });
    expect(expectedAnswer('刑期:6个月')).toEqual({ kind: 'number', value: 6, tolerance: 1 });
    expect(expectedAnswer('判处有期徒刑三年六个月')).toEqual({ kind: 'number', value: 42, tolerance: 4 });
    expect(expectedAnswer('法条:刑法第264条')).toEqual({ kind: 'articles' });
  });
  it('with a term or a choice for an answer have as gold what the question names, not what it quotes', () => {
    const charged = '事实:甲违反交通法第5条，偷手机。罪名:盗窃。';
    const law = '法条内容：第二百六十四条 盗窃的，依照本法第一百三十三条处罚。';
    const rows = [
      { id: 'term', query: `${charged}法条:刑法第264、133条。${law}`, answer: '刑期:4个月' },
      { id: 'no law', query: `${charged}${law}`, answer: '刑期:4个月' },
      { id: 'choice', query: '刑法第264条的内容是:\nA: 刑法第133条\nB: 盗窃', answer: 'B' },
      { id: 'exam', query: '何罪?A:盗窃，刑法第264条;B:抢劫', answer: '正确答案:A。' },
    ];
    const { queries, report } = mapRows(rows, corpus);
    expect(queries.map(({ id, gold, answer }) => [id, gold, answer?.kind])).toEqual([
      ['term', ['c264', 'c133'], 'number'],
      ['choice', ['c264'], 'choice'],
    ]);
    expect(Object.values(report.leftOut).flatMap(({ first }) => first)).toEqual(['no law', 'exam']);
  });
  it('are read from one array as from lines, and from no half of one', async () => {
    const rows = [
      { instruction: 'x', question: '甲偷手机', answer: '法条:刑法第264条' },
      { instruction: 'x', question: '甲酒后驾车', answer: '法条:刑法第133条之一' },
    ];
    const array = join(scratch, '3-1.json');
    writeFileSync(array, `\uFEFF${JSON.stringify(rows, null, 2)}`);
    const read = await importQuestions(array, 'lawbench', corpus);
    writeFileSync(`${array}.gz`, gzipSync(JSON.stringify(rows)));
    expect(await importQuestions(`${array}.gz`, 'lawbench', corpus)).toEqual(read);
    writeFileSync(`${array}.gz`, gzipSync(JSON.stringify(rows)).subarray(0, -9));
    await expect(importQuestions(`${array}.gz`, 'lawbench', corpus)).rejects.toThrow(/3-1.json.gz: /);
    expect(read).toEqual(await importQuestions(file('lines.json', rows), 'lawbench', corpus));
    expect(read.queries.map(({ gold }) => gold)).toEqual([['c264'], ['c133-1']]);
    writeFileSync(array, JSON.stringify([rows[0], { question: 'x' }, 7]));
    await expect(importQuestions(array, 'lawbench', corpus)).rejects.toThrow(
      /2 problems\n {2}row 2: "answer"/,
    );
    writeFileSync(array, '[{"question":');
    await expect(importQuestions(array, 'lawbench', corpus)).rejects.toThrow(/3-1.json: is no JSON/);
    await expect(importQuestions(join(scratch, 'none.json'), 'lawbench', corpus)).rejects.toThrow(
      /none.json/,
    );
  });
  it('come in the shapes of LexEval and LawBench, ids given or by line', async () => {
    const exam = file('lexeval.jsonl', [{ input: '哪项？A. 盗窃 B. 抢劫', answer: 'A，依据刑法第264条' }]);
    expect((await importQuestions(exam, 'lexeval', corpus)).queries).toEqual([
      {
        id: 'lexeval-1',
        query: '哪项？A. 盗窃 B. 抢劫',
        gold: ['c264'],
        answer: { kind: 'choice', choices: ['A'] },
      },
    ]);
    const bad = file('bad.jsonl', [{ question: 'x' }]);
    await expect(importQuestions(bad, 'lawbench', corpus)).rejects.toThrow(/bad.jsonl/);
  });
  it('are split by a seed, both parts in order and disjoint', () => {
    const queries = Array.from({ length: 50 }, (_, i) => ({ id: `q${i}`, query: `案${i}`, gold: ['a'] }));
    const { train, heldOut } = splitQuestions(queries, 0.3, 1);
    expect([train.length, heldOut.length]).toEqual([35, 15]);
    expect([...train, ...heldOut].map(({ id }) => id).sort()).toEqual(queries.map(({ id }) => id).sort());
    expect(splitQuestions(queries, 0.3, 1)).toEqual({ train, heldOut });
    expect(splitQuestions(queries, 0.3, 2).heldOut).not.toEqual(heldOut);
    expect(heldOut).toEqual(queries.filter((one) => heldOut.includes(one)));
  });
  it('keep the same words on one side, whatever their ids and spacing', () => {
    const queries = Array.from({ length: 40 }, (_, i) => ({
      id: `q${i}`,
      query: i % 2 === 0 ? `案 ${i >> 1}` : `案  ${i >> 1}\n`,
      gold: ['a'],
    }));
    const { train, heldOut } = splitQuestions(queries, 0.3, 1);
    expect(train.length + heldOut.length).toBe(40);
    const words = new Set(train.map(({ query }) => query.replace(/\s+/g, '')));
    expect(heldOut.filter(({ query }) => words.has(query.replace(/\s+/g, '')))).toEqual([]);
  });
  it.each([
    [1, 0.4, 'none to hold out'],
    [1, 0.6, 'none to train on'],
    [3, 1, 'none to train on'],
  ])('of %i with a share of %d are refused: %s', (count, share, what) => {
    const queries = Array.from({ length: count }, (_, i) => ({ id: `${i}`, query: `案${i}`, gold: ['a'] }));
    expect(() => splitQuestions(queries, share, 1)).toThrow(what);
  });
});

describe('what other projects write', () => {
  const row = { question: '甲偷手机', answer: '刑法第264条' };
  it.each(['', '  ', null])('has no id in %j: the number of the row is', async (id) => {
    const questions = await importQuestions(file('blank-id.jsonl', [{ ...row, id }]), 'lawbench', corpus);
    expect(questions.queries.map((one) => one.id)).toEqual(['lawbench-1']);
    const cases = file('blank-case.jsonl', [{ text_id: id, text: '甲偷手机', la: [264] }]);
    expect((await importPrecedents(cases, 'judge', corpus)).precedents[0]!.id).toBe('judge-1');
  });
  it('is refused where it is not UTF-8, as an array too', async () => {
    const path = join(scratch, 'gbk.json');
    // 甲 in GB 18030 is BC D7.
    const [before, after] = JSON.stringify([row]).split('甲');
    writeFileSync(
      path,
      Buffer.concat([Buffer.from(before!), Buffer.from([0xbc, 0xd7]), Buffer.from(after!)]),
    );
    await expect(importQuestions(path, 'lawbench', corpus)).rejects.toThrow('not valid UTF-8');
  });
  it.each([['２６４'], ['264条第一款'], ['刑法第２６４条'], ['二百六十四条'], ['刑法264条']])(
    'cites an article as %s',
    async (cited) => {
      const cases = file('cited.jsonl', [{ text: '甲偷手机', la: [cited] }]);
      expect((await importPrecedents(cases, 'judge', corpus)).precedents[0]!.articles).toEqual(['c264']);
    },
  );
  it.each([
    '北京知识产权法院',
    '上海金融法院',
    '杭州互联网法院',
    '北京铁路运输中级法院',
    '成都铁路运输第二法院',
  ])('names %s', async (court) => {
    const cases = file('court.jsonl', [{ text: '甲', fd: `${court}刑事判决书` }]);
    expect((await importPrecedents(cases, 'judge', corpus)).precedents[0]!.court).toBe(court);
  });
});

const SHARED = '../shared/data';
describe.skipIf(!existsSync(`${SHARED}/lawbench`))(
  'the cases of LawBench (skipped where the shared data are absent)',
  () => {
    it('are all mapped to articles of the Criminal Law', async () => {
      const law = await loadCorpus(`${SHARED}/judge/statutes.jsonl`);
      const { queries, report } = await importQuestions(
        `${SHARED}/lawbench/article-prediction.jsonl`,
        'lawbench',
        law,
      );
      expect(report).toEqual({ read: 320, kept: 320, leftOut: {} });
      const gold = Object.fromEntries(queries.map((query) => [query.id, query.gold.join()]));
      expect([gold['lb31-000'], gold['lb31-001']]).toEqual(['xf264,xf353', 'xf237']);
      expect(queries.every(({ answer }) => answer?.kind === 'articles')).toBe(true);
    });
  },
);
