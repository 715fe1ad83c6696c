import { describe, expect, it } from 'vitest';
import { lawKind, lawOf, lawShortName } from './law-name.ts';

describe('lawShortName', () => {
  it.each([
    ['中华人民共和国民法典', '民法典'],
    ['劳动合同法', '劳动合同法'],
    ['最高人民法院关于审理民间借贷案件适用法律若干问题的规定', '民间借贷规定'],
    ['最高人民法院关于适用《民法典》有关担保制度的解释', '民法典担保制度解释'],
    ['最高人民法院关于适用《中华人民共和国保险法》若干问题的解释（三）', '保险法解释（三）'],
    [
      '最高人民法院关于审理建设工程施工合同纠纷案件适用法律问题的解释（一）',
      '建设工程施工合同纠纷解释（一）',
    ],
    ['最高人民法院、最高人民检察院关于办理盗窃刑事案件适用法律若干问题的解释', '盗窃刑事解释'],
    ['最高人民法院关于审理专利纠纷案件适用法律问题的若干规定', '专利纠纷规定'],
    ['国务院关于预防煤矿生产安全事故的特别规定', '预防煤矿生产安全事故规定'],
    ['中华人民共和国行政诉讼法（2017修正）', '行政诉讼法'],
    ['示范劳动用工条例', '劳动用工条例'],
    ['Model Tenancy Act', 'Model Tenancy Act'],
    ['中华人民共和国', '中华人民共和国'],
  ])('%s → %s', (law, short) => {
    expect(lawShortName(law)).toBe(short);
  });
});

describe('lawOf', () => {
  it('is the law that the corpus gives, else the title without its article number', () => {
    expect(lawOf({ title: '民法典第五十四条', law: '中华人民共和国民法典' })).toBe('中华人民共和国民法典');
    expect(lawOf({ title: '刑法第二百六十六条之一' })).toBe('刑法');
    expect(lawOf({ title: '第三条' })).toBe('第三条');
  });
});

describe('lawKind', () => {
  it('tells interpretations and procedural laws from the others', () => {
    expect(lawKind('最高人民法院关于民事诉讼证据的若干规定')).toBe('interpretation');
    expect(lawKind('中华人民共和国民事诉讼法')).toBe('procedure');
    expect(lawKind('劳动争议调解仲裁法')).toBe('procedure');
    expect(lawKind('中华人民共和国民法典')).toBe('other');
  });
});
