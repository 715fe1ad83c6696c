import { describe, expect, it } from 'vitest';
import { stream } from '../../../base/random.ts';
import { readNumeral } from './chinese-numerals.ts';
import { authority, courtLevel } from './court-level.ts';
import { dispositivePart, monthsOf, PENALTIES, type Sentence, sentencesOf } from './sentence.ts';
import { heaviestSentence, severity, severityOf } from './severity.ts';

describe('numerals', () => {
  it.each([
    ['三', 3],
    ['十五', 15],
    ['二十六万', 260_000],
    ['叁仟', 3000],
    ['一万三千', 13_000],
    ['1.5万', 15_000],
    ['5，080', 5080],
    ['二〇一八', 2018],
    ['两', 2],
    ['一百零八', 108],
    ['１２', 12],
    ['廿', 20],
    ['廿六', 26],
    ['卅', 30],
    ['貳萬', 20_000],
    ['陸', 6],
    ['兩千叄佰', 2300],
  ])('%s is %d', (text, value) => expect(readNumeral(text)).toBe(value));
  it('nothing, and what is none, is null', () => {
    for (const text of ['', '年', '三x', '万', '9'.repeat(400)]) expect(readNumeral(text)).toBe(null);
  });
  it.each([
    ['三年六个月', 42],
    ['一年零二个月', 14],
    ['一年又六个月', 18],
    ['10个月', 10],
    ['六月', 6],
    ['二个月十五日', 2.5],
    ['一个月零十五天', 1.5],
    ['十五年', 180],
    ['一年半', 18],
    ['半年', 6],
    ['一个半月', 1.5],
    ['三年六個月', 42],
    ['廿年', 240],
  ])('%s is %d months', (text, value) => expect(monthsOf(text)).toBe(value));
});

describe('court level', () => {
  it.each([
    ['中华人民共和国最高人民法院', 4],
    ['浙江省高级人民法院', 3],
    ['广西壮族自治区百色市中级人民法院', 2],
    ['宁波海事法院', 2],
    ['广州知识产权法院', 2],
    ['上海金融法院', 2],
    ['杭州互联网法院', 1],
    ['通化铁路运输法院', 1],
    ['长春铁路运输中级法院', 2],
    ['江苏省南通经济技术开发区人民法院', 1],
    ['中国人民解放军军事法院', 3],
    ['中国人民解放军东部战区军事法院', 2],
    ['中国人民解放军总直属军事法院', 2],
    ['中国人民解放军杭州军事法院', 1],
    ['最高人民法院第一巡回法庭', 4],
    ['吉林省公主岭市人民法院', 1],
  ])('%s is of level %i', (court, level) => expect(courtLevel(court)).toBe(level));
  it('without a name comes from the judgment; without either is unknown, and counts as basic', () => {
    expect(courtLevel(null, '某某盗窃案 广东省高级人民法院 刑事判决书')).toBe(3);
    expect(courtLevel(null, '广 东 省 高 级 人 民 法 院 刑 事 判 决 书')).toBe(3);
    // The court of an earlier conviction is not the one that judges.
    const record = '绥中县人民法院 刑事判决书 被告人王某，1996年被葫芦岛市中级人民法院判处有期徒刑';
    expect(courtLevel(null, record)).toBe(1);
    expect(courtLevel(null, '刑事判决书')).toBe(null);
    expect([null, 1, 2, 3, 4].map((level) => authority(level as 1))).toEqual([0, 0, 1 / 3, 2 / 3, 1]);
  });
});

const after = (text: string): Sentence[] =>
  sentencesOf(`本院认为……判决如下： ${text} 如不服本判决，可上诉。判处死刑。`);

describe('sentences', () => {
  it('take what is executed of several charges, for each defendant', () => {
    const all = after(
      '一、被告人甲某犯盗窃罪，判处有期徒刑八个月；犯抢劫罪，判处有期徒刑三年，决定执行有期徒刑三年零二个月，并处罚金2800元。二、被告人乙某犯盗窃罪，判处拘役五个月，缓刑六个月。',
    );
    expect(all).toMatchObject([
      { defendant: '甲某', kind: 'fixed', months: 38, probationMonths: null, fine: 2800 },
      { defendant: '乙某', kind: 'detention', months: 5, probationMonths: 6, fine: null },
    ]);
  });
  it.each<[string, Partial<Sentence>]>([
    ['被告人甲犯故意杀人罪，判处死刑，剥夺政治权利终身。', { kind: 'death', months: null }],
    ['被告人甲犯故意杀人罪，判处死刑，缓期二年执行。', { kind: 'death-reprieve' }],
    ['被告人甲犯受贿罪，判处无期徒刑，并处没收个人全部财产。', { kind: 'life', confiscation: true }],
    ['被告人甲犯赌博罪，判处管制一年。', { kind: 'control', months: 12 }],
    ['被告人甲犯盗窃罪，单处罚金人民币叁仟元。', { kind: 'fine', fine: 3000 }],
    ['被告人甲犯滥伐林木罪，免予刑事处罚。', { kind: 'exempt' }],
    ['被告人甲无罪。', { kind: 'acquitted' }],
    ['被告人甲不负刑事责任。', { kind: 'acquitted' }],
    ['被告人甲犯盗窃罪，免予刑事处分。', { kind: 'exempt' }],
    ['被告人甲犯贩卖毒品罪，判处死刑（缓期二年执行）。', { kind: 'death-reprieve' }],
    ['被告人甲犯贪污罪，判处有期徒刑十年，没收其个人财产五万元。', { kind: 'fixed', confiscation: true }],
    ['被告单位某公司犯逃税罪，判处罚金50万元。', { defendant: '某公司', kind: 'fine', fine: 500_000 }],
    ['被告人甲犯盗窃罪，判处管制六个月。', { kind: 'control', months: 6, politicalRights: null }],
    ['被告人甲犯强奸罪，判处有期徒刑十一年，剥夺政治权利一年。', { months: 132, politicalRights: 12 }],
    [
      '被告人甲犯抢劫罪，判处无期徒刑，剥夺政治权利终身；犯盗窃罪，判处有期徒刑十年，剥夺政治权利二年；决定执行无期徒刑，剥夺政治权利终身。',
      { kind: 'life', politicalRights: 'life' },
    ],
  ])('%s', (text, expected) => expect(after(text)).toMatchObject([expected]));
  it.each([
    '一、被告人甲、乙犯盗窃罪，各判处有期徒刑一年。',
    '一、被告人甲、被告人乙犯盗窃罪，均判处有期徒刑一年。',
    '被告人甲及被告人乙犯盗窃罪，均判处有期徒刑一年。',
    '一、被告人甲、乙犯盗窃罪；二、判处被告人甲有期徒刑一年；判处被告人乙有期徒刑一年。',
  ])('are of each of several defendants named together: %s', (text) => {
    expect(after(text)).toMatchObject([
      { defendant: '甲', kind: 'fixed', months: 12 },
      { defendant: '乙', kind: 'fixed', months: 12 },
    ]);
  });
  it('are found behind a heading set with blanks', () => {
    expect(sentencesOf('判 决 如 下：被告人甲犯盗窃罪，判处拘役三个月。')).toMatchObject([{ months: 3 }]);
  });
  it('follow a plain revocation without a number of their own', () => {
    expect(after('撤销某县人民法院刑事判决；上诉人甲犯盗窃罪，判处拘役四个月。')).toMatchObject([
      { defendant: '甲', kind: 'detention', months: 4 },
    ]);
  });
  it('are not those that an appeal revokes, nor those in brackets or in statutes quoted behind', () => {
    const text =
      '一、撤销某县人民法院刑事判决，即被告人甲犯盗窃罪，判处有期徒刑六年；二、上诉人甲犯盗窃罪，判处拘役五个月（曾被判处有期徒刑九年）。';
    expect(after(text)).toMatchObject([{ kind: 'detention', months: 5 }]);
    // 第二、三、四项 are no items of this judgment.
    const several =
      '一、撤销某县人民法院刑事判决的第二、三、四项，即被告人甲犯盗窃罪，决定执行有期徒刑八年；二、上诉人甲犯盗窃罪，判处有期徒刑四年，与前罪并罚，决定执行有期徒刑六年。';
    expect(after(several)).toMatchObject([{ defendant: '甲', months: 72 }]);
    const quoted =
      '判决如下：驳回上诉，维持原判。本判决为终审判决。附：相关法律 处三年以上十年以下有期徒刑。';
    expect(sentencesOf(quoted)).toEqual([]);
    expect(dispositivePart('没有主文')).toBe(null);
    expect(severityOf(quoted)).toBe(null);
  });
});

describe('forms that few judgments use', () => {
  const of = (text: string) => heaviestSentence(`判决如下：被告人甲犯某罪，${text}如不服本判决，可上诉。`);
  it.each<[string, Partial<Sentence>]>([
    [
      '判處有期徒刑三年六個月，緩刑四年，並處罰金人民幣伍萬元。',
      { months: 42, probationMonths: 48, fine: 50_000 },
    ],
    ['判处有期徒刑 三 年 六 个 月，并处罚金 5 万元。', { months: 42, fine: 50_000 }],
    ['判处死缓，剥夺政治权利终身。', { kind: 'death-reprieve', politicalRights: 'life' }],
    ['判处死刑，剥夺政治权利终身，缓期二年执行。', { kind: 'death-reprieve' }],
    ['判处死刑，立即执行，剥夺政治权利终身。', { kind: 'death' }],
    ['判处有期徒刑三年，与前罪有期徒刑十年数罪并罚，决定执行刑期十二年。', { kind: 'fixed', months: 144 }],
    ['判处有期徒刑十五年，并处罚金人民币50余万元。', { fine: 500_000 }],
    ['判处拘役一个半月。', { kind: 'detention', months: 1.5 }],
  ])('%s', (text, sentence) => expect(of(text)).toMatchObject(sentence));
  it('are read in time that grows with the text, whatever it repeats', () => {
    // Of a power of the length each took seconds to minutes; this many letters must not matter.
    for (const part of ['撤销', '一', '撤销一、', '被告人甲、', '（', ' '])
      expect(sentencesOf(`判决如下：${part.repeat(100_000 / part.length)}`)).toEqual([]);
  });
});

describe('an earlier probation that is revoked', () => {
  it.each([
    '一、被告人甲犯受贿罪，判处有期徒刑一年。撤销某县人民法院对被告人甲宣告的缓刑，原判有期徒刑二年，缓刑二年。数罪并罚，决定合并执行有期徒刑二年六个月。',
    '被告人甲犯盗窃罪，判处有期徒刑一年；撤销某县人民法院刑事判决中对被告人甲判处有期徒刑二年，缓刑四年的缓刑部分；数罪并罚，决定执行有期徒刑二年六个月。',
    '一、撤销某县人民法院刑事判决中对被告人甲宣告缓刑二年的执行部分；被告人甲犯受贿罪，判处有期徒刑一年，与前罪并罚，决定执行有期徒刑二年六个月。',
  ])('leaves what is executed, unsuspended: %s', (text) => {
    expect(after(text)).toMatchObject([{ kind: 'fixed', months: 30, probationMonths: null }]);
  });
});

describe('severity', () => {
  const of = (
    kind: Sentence['kind'],
    months: number | null = null,
    probationMonths: number | null = null,
    fine: number | null = null,
  ) => severity({ kind, months, probationMonths, fine });

  it('orders the kinds: death over reprieve over life over any term over a fine over none', () => {
    const terms = [of('fixed', 300), of('fixed', 6), of('detention', 1), of('detention', 1, 2)];
    const all = [
      of('death'),
      of('death-reprieve'),
      of('life'),
      ...terms,
      of('fine', null, null, 1e8),
      of('exempt'),
    ];
    expect(all).toEqual([...all].sort((a, b) => b - a));
    expect(new Set(all).size).toBe(all.length);
    for (const value of all) expect(value >= 0 && value <= 1).toBe(true);
    expect(of('acquitted')).toBe(0);
  });
  it('grows with the months, is less on probation, and half a day of control is a day of custody', () => {
    const random = stream(1, 'severity-test');
    for (let i = 0; i < 500; i++) {
      const months = 1 + random.int(299);
      const more = months + 1 + random.int(12);
      expect(of('fixed', more)).toBeGreaterThanOrEqual(of('fixed', months));
      expect(of('fixed', months, 12)).toBeLessThan(of('fixed', months));
      expect(of('control', 2 * months)).toBeCloseTo(of('detention', months), 12);
      expect(of('fine', null, null, 1000 * more)).toBeGreaterThanOrEqual(
        of('fine', null, null, 1000 * months),
      );
    }
    expect(PENALTIES).toHaveLength(9);
  });
  it('of a judgment is that of its defendant of the highest, not of the longest term', () => {
    const judgment =
      '判决如下：一、被告人甲犯盗窃罪，判处有期徒刑三年，缓刑四年；二、被告人乙犯盗窃罪，判处有期徒刑二年；三、被告人丙犯盗窃罪，单处罚金五千元。';
    expect(heaviestSentence(judgment)).toMatchObject({ defendant: '乙', months: 24, probationMonths: null });
    expect(severityOf(judgment)).toBe(Math.max(...sentencesOf(judgment).map(severity)));
    expect(severityOf(judgment)).toBeGreaterThan(of('fixed', 36, 48));
  });
  it.each<[number, Parameters<typeof of>]>([
    [0.3595, ['fixed', 12]],
    [0.5062, ['fixed', 36]],
    [0.3833, ['fixed', 36, 60]],
    [0.2512, ['detention', 5]],
    [0.2728, ['control', 12]],
    [0.0239, ['fine', null, null, 5000]],
    [0.8, ['fixed', 300]],
    [0.88, ['life']],
    [0.94, ['death-reprieve']],
  ])('%d, reckoned by hand: %j', (value, sentence) => expect(of(...sentence)).toBeCloseTo(value, 4));
});
