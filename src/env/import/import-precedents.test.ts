import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../base/test-support.ts';
import { corpusOf } from '../corpus.ts';
import { importPrecedents } from './import-precedents.ts';

const scratch = temporaryFolder();
const corpus = corpusOf([
  { id: 'c133-1', title: '中华人民共和国刑法第一百三十三条之一', text: 'x' },
  { id: 'c264', title: '中华人民共和国刑法第二百六十四条', text: 'x' },
]);
const file = (name: string, rows: object[]): string => {
  const path = join(scratch, name);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return path;
};

describe('precedents', () => {
  it('come in the shapes of JuDGE and LeCaRDv2', async () => {
    const judgment = '吉林省公主岭市人民法院 刑事判决书 …… 判决如下：被告人甲犯盗窃罪，判处有期徒刑一年。';
    const judge = file('judge.jsonl', [
      { text_id: 7, text: '甲偷手机', fd: judgment, la: [264, '133-1', 999] },
      { text_id: 8, text: ' ', fd: judgment, la: [] },
    ]);
    const { precedents, report } = await importPrecedents(judge, 'judge', corpus);
    expect(precedents).toEqual([
      { id: '7', court: '吉林省公主岭市人民法院', fact: '甲偷手机', judgment, articles: ['c264', 'c133-1'] },
    ]);
    expect(Object.keys(report.leftOut)).toEqual([
      'article 中华人民共和国刑法 999 is not in the corpus',
      'the facts are empty',
    ]);
    const lecard = file('lecard.jsonl', [
      {
        pid: 'p',
        fact: '甲偷手机',
        reason: '本院认为',
        result: '判处拘役',
        article: ['刑法第二百六十四条'],
        charge: ['盗窃罪'],
      },
    ]);
    expect((await importPrecedents(lecard, 'lecardv2', corpus)).precedents).toEqual([
      {
        id: 'p',
        court: null,
        fact: '甲偷手机',
        judgment: '甲偷手机\n本院认为\n判处拘役',
        articles: ['c264'],
      },
    ]);
  });

  it('come as JuDGE publishes them: one array, its keys in capitals, the whole document first', async () => {
    const path = join(scratch, 'all.json');
    const document = '河南省辉县市人民法院 刑事判决书 …… 判处拘役一个月。';
    const entry = {
      CaseId: '101305d2',
      Fact: ' 甲醉酒驾车 ',
      'Full Document': document,
      Reasoning: '本院认为',
      Judgment: '判处拘役一个月。',
      Sentence: ['拘役一个月'],
      Fine: [],
      'Crime Type': ['危险驾驶罪'],
      'Law Articles': [264],
    };
    const { 'Full Document': _, ...parts } = { ...entry, CaseId: '2' };
    writeFileSync(path, JSON.stringify([entry, parts]));
    const { precedents, report } = await importPrecedents(path, 'judge', corpus);
    expect(precedents).toEqual([
      {
        id: '101305d2',
        court: '河南省辉县市人民法院',
        fact: ' 甲醉酒驾车 ',
        judgment: document,
        articles: ['c264'],
      },
      {
        id: '2',
        court: null,
        fact: ' 甲醉酒驾车 ',
        judgment: '本院认为\n判处拘役一个月。',
        articles: ['c264'],
      },
    ]);
    expect(report.leftOut).toEqual({});
  });

  it('come as LeCaRDv2 keeps its candidates: a folder, a file a case, in the order of their numbers', async () => {
    const folder = join(scratch, 'candidates');
    mkdirSync(folder);
    const candidate = (pid: number, change = {}) =>
      writeFileSync(
        join(folder, `${pid}.json`),
        JSON.stringify({
          pid,
          qw: '重庆市北碚区人民法院刑事判决书 甲偷手机',
          fact: '甲偷手机',
          reason: '本院认为',
          result: '判处拘役',
          charge: ['盗窃罪'],
          article: [264, 67],
          ...change,
        }),
      );
    candidate(10);
    candidate(9);
    writeFileSync(join(folder, 'README.md'), 'no case');
    const { precedents } = await importPrecedents(folder, 'lecardv2', corpus);
    expect(precedents.map(({ id }) => id)).toEqual(['9', '10']);
    expect(precedents[0]).toMatchObject({
      court: '重庆市北碚区人民法院',
      judgment: '重庆市北碚区人民法院刑事判决书 甲偷手机\n判处拘役',
      articles: ['c264'],
    });
    candidate(11, { fact: 5 });
    await expect(importPrecedents(folder, 'lecardv2', corpus)).rejects.toThrow(
      /1 problems\n {2}11\.json: "fact"/,
    );
    writeFileSync(join(folder, '11.json'), '{');
    await expect(importPrecedents(folder, 'lecardv2', corpus)).rejects.toThrow(/11\.json: is no JSON/);
    const empty = join(scratch, 'no-candidates');
    mkdirSync(empty);
    await expect(importPrecedents(empty, 'lecardv2', corpus)).rejects.toThrow('holds no .json file');
  });
});
