import type { Article } from './types.ts';

const ISSUER =
  '(?:最高人民法院|最高人民检察院|公安部|司法部|国务院|国家安全部|全国人民代表大会(?:常务委员会)?)';
const KIND = '解释|规定|批复|意见|决定|通知|答复|办法|规则|公告|安排';
const FROM_ISSUER = new RegExp(
  `^${ISSUER}(?:[、\\s]${ISSUER})*关于(.+?)的?(?:若干|特别)?(${KIND})((?:（[^（）]+）)*)$`,
);

/**
 * The short name of a Chinese law, as a lawyer would say it: 民法典, 民间借贷规定, 建设工程施工合同纠纷解释（一）.
 * Drops the state's name, the 示范 of a model law, the issuing courts and the set phrases of judicial interpretations; names of any
 * other form, other languages included, stay as they are.
 */
export function lawShortName(law: string): string {
  const name = law
    .replace(/[《》]/g, '')
    .replaceAll('中华人民共和国', '')
    .replace(/^示范(?=.{2})/, '')
    .replace(/（\d{4}[^（）]*）$/, '');
  const match = FROM_ISSUER.exec(name);
  if (match === null) return name === '' ? law : name;
  const [, subject = '', kind = '', number = ''] = match;
  const core = subject
    .replace(/^(?:人民法院)?(?:审理|办理|适用|执行|处理|确定)(?!案件)/, '')
    .replace(/(?:如何)?(?:具体)?(?:适用|应用|运用)(?:法律)?(?:若干|有关|几个)?(?:具体)?(?:问题)?$/, '')
    .replace(/(?:若干|有关|几个)(?:具体)?(?:法律)?(?:问题)?$/, '')
    .replace(/(?:法律)?问题$/, '')
    .replace(/有关/, '')
    .replace(/的?案件$/, '');
  return `${core === '' ? subject : core}${kind}${number}`;
}

/** The law of an article: the corpus's word, or the title without its article number. */
export function lawOf(article: Pick<Article, 'title' | 'law'>): string {
  return (
    article.law ?? (article.title.replace(/第[零〇一二三四五六七八九十百千\d]+条.*$/, '') || article.title)
  );
}

export type LawKind = 'interpretation' | 'procedure' | 'other';

/**
 * What supports a substantive rule: judicial interpretations, and procedural law with its evidence and
 * enforcement rules. By name only.
 */
export function lawKind(law: string): LawKind {
  if (/^最高人民(?:法院|检察院)/.test(law) || /解释(?:（[^（）]+）)*$/.test(law)) return 'interpretation';
  return /诉讼|程序|仲裁|调解|复议|听证|证据/.test(law) ? 'procedure' : 'other';
}
