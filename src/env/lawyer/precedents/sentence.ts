/**
 * Sentences from Chinese criminal judgments: what the dispositive part (判决如下 up to the notice of appeal) imposes
 * on each defendant. Statutes quoted elsewhere, and terms in brackets (when custody begins), never count.
 */
import { NUMERAL, readNumeral } from './chinese-numerals.ts';

/** From the heaviest to none. */
export const PENALTIES = [
  'death',
  'death-reprieve',
  'life',
  'fixed',
  'detention',
  'control',
  'fine',
  'exempt',
  'acquitted',
] as const;
export type Penalty = (typeof PENALTIES)[number];

/** What one defendant got in all (数罪并罚: what is to be executed). */
export interface Sentence {
  defendant: string;
  kind: Penalty;
  /** Of fixed-term imprisonment, detention or control; null for the others. */
  months: number | null;
  /** Months of probation when the term is suspended; null when it is not. */
  probationMonths: number | null;
  /** Yuan; null for none, or one without an amount. */
  fine: number | null;
  /** All or part of the property. */
  confiscation: boolean;
  /** Months without political rights, or for life; null where they are kept. */
  politicalRights: number | 'life' | null;
}

/** Traditional forms of the characters that the patterns below read. */
const TRADITIONAL: Record<string, string> = {
  決: '决',
  處: '处',
  罰: '罚',
  個: '个',
  緩: '缓',
  執: '执',
  並: '并',
  併: '并',
  無: '无',
  剝: '剥',
  奪: '夺',
  權: '权',
  終: '终',
  沒: '没',
  財: '财',
  產: '产',
  單: '单',
  幣: '币',
  撤銷: '撤销',
  數: '数',
  訴: '诉',
  審: '审',
};
const TRADITIONAL_FORMS = new RegExp(Object.keys(TRADITIONAL).join('|'), 'gu');

/** Blanks within a line of Chinese: 有期徒刑 三 年. */
const BLANKS = /(?<=[\p{Script=Han}\d，。；：、])[^\S\n]+(?=[\p{Script=Han}\d])/gu;

/** As the patterns below expect it. */
const plain = (judgment: string): string =>
  judgment.replace(TRADITIONAL_FORMS, (form) => TRADITIONAL[form]!).replace(BLANKS, '');

/** Ends of the dispositive part. */
const END =
  /如(?:果)?不服本?判决|如不服[，,]|本判决为终审|本判决(?:送达后)?(?:即|立即)发生|可在接到|（?此页无正文|审\s*判\s*长|审\s*判\s*员|附[：:]?\s*(?:本案|相关|法律)|本件与原本/;

/** The dispositive part without what stands in brackets and what it revokes; null where there is none. */
export function dispositivePart(written: string): string | null {
  const judgment = plain(written);
  const begin = [...judgment.matchAll(/判\s*决\s*如\s*下/gu)].at(-1);
  if (!begin) return null;
  const rest = judgment
    .slice(begin.index + begin[0].length)
    .replace(/^[：:，\s]+/u, '')
    .replace(/死刑\s*[（(]\s*(缓期[^（）()]*)[）)]/gu, '死刑，$1')
    .replace(/死缓/gu, '死刑，缓期二年执行');
  const part = rest.slice(0, END.exec(rest)?.index ?? rest.length);
  let bare = part;
  for (let before = ''; before !== bare; ) {
    before = bare;
    bare = bare.replace(/[（(][^（）()]*[）)]/gu, '');
  }
  return bare
    .replace(REVOKED_PROBATION, '')
    .replace(REVOKED_PLAINLY, '')
    .replace(REVOKED, '')
    .replace(NAMED_AFTER, '被告人$1犯，判处');
}

/** An earlier probation or parole that ends: the sentence for the new offence may follow in the same item. */
const REVOKED_PROBATION =
  /撤销(?:[^，。；]{0,200}?(?:宣告的?缓刑|缓刑[^，。；]{0,8}执行部分|假释)|[^。；]{0,200}?缓刑(?:执行)?部分)[^，。；]*[，。；]?/gu;

/** What revokes without a quotation ends with its clause: 撤销某判决；上诉人甲无罪. */
const REVOKED_PLAINLY = /撤销[^；。：:即犯处缓]{0,400}[；。]/gu;

/**
 * An item of an appeal's judgment that revokes what the first instance imposed, and quotes it: up to the number of
 * the next item. 第二、三、四项 are numbers of what is revoked.
 */
const REVOKED =
  /(?:[一二三四五六七八九十]{1,3}、)?\s{0,9}撤销[\s\S]*?(?=(?<![第、一二三四五六七八九十])[一二三四五六七八九十]{1,3}、|$)/gu;

/** What several sentences become: 决定执行, 决定合并执行, 数罪并罚执行. */
const EXECUTED = /(?:决定|合并|并罚)[^，。；]{0,6}?执行/gu;

/** 判处被告人甲有期徒刑: the name behind the verb. */
const NAMED_AFTER = /判处(?:被告人|上诉人)([^，。；：、]{1,40}?)(?=有期徒刑|无期徒刑|死刑|拘役|管制|罚金)/gu;

/** 被告人甲, 被告人甲、乙, and what follows the names. */
const NAMED =
  '(?:原审)?(?:被告单位|被告人?|上诉人|罪犯)(?:[:：]\\s*)?([^，。；：]{1,40}?)(?:犯|无罪|免予?(?:除)?刑事处[罚分]|不负刑事责任)';

/** Where the next sentence begins, of one defendant or of several together (甲、乙犯…，各判处…). */
const DEFENDANT = new RegExp(
  `(?<![^一二三四五六七八九十\\d]、|[和及与])(?=${NAMED.replace(/\((?!\?)/u, '(?:')})`,
  'u',
);
const NAMES = new RegExp(`^${NAMED}`, 'u');
const BETWEEN_NAMES = /(?:、|[和及与](?=原审|被告|上诉人))(?:原审)?(?:被告单位|被告人?|上诉人)?/u;

/** The sentences of a judgment, in its order; none where the part imposes none (an appeal dismissed). */
export function sentencesOf(judgment: string): Sentence[] {
  const part = dispositivePart(judgment);
  if (part === null) return [];
  const byName = new Map<string, Sentence>();
  for (const piece of part.split(DEFENDANT)) {
    const read = sentenceIn(piece);
    if (read === null) continue;
    for (const name of (NAMES.exec(piece)?.[1] ?? '').split(BETWEEN_NAMES)) {
      const defendant = name.trim();
      const before = byName.get(defendant);
      // Named twice: a term for each offence, then what is executed; or the same in other words.
      if (!before || isHeavier(read, before)) byName.set(defendant, { defendant, ...read });
    }
  }
  return [...byName.values()];
}

/** Whether the first is the heavier penalty: by kind, then by the term; probation aside. */
export function isHeavier(a: Imposed, b: Imposed): boolean {
  const kinds = PENALTIES.indexOf(a.kind) - PENALTIES.indexOf(b.kind);
  return kinds !== 0 ? kinds < 0 : (a.months ?? 0) > (b.months ?? 0);
}

type Imposed = Omit<Sentence, 'defendant'>;

function sentenceIn(piece: string): Imposed | null {
  const executed = [...piece.matchAll(EXECUTED)].at(-1)?.index;
  // 决定执行刑期十二年: of what was named before.
  const text = executed === undefined ? piece : piece.slice(executed).replace(/(执行)刑期/u, '$1有期徒刑');
  const kind = penaltyOf(text);
  if (kind === null) return null;
  const ending = kind === 'fixed' || kind === 'detention' || kind === 'control';
  const name = { fixed: '有期徒刑', detention: '拘役', control: '管制' };
  return {
    kind,
    months: ending ? longest(text, name[kind]) : null,
    probationMonths: ending ? probation(text) : null,
    fine: fineOf(text),
    confiscation: /没收其?(?:个人)?(?:全部|部分)?(?:个人)?财产/.test(text),
    politicalRights: politicalRights(text),
  };
}

function penaltyOf(text: string): Penalty | null {
  if (/死刑(?:[，,]剥夺政治权利终身)?[，,]?\s*缓期/.test(text)) return 'death-reprieve';
  if (/(?:判处|执行|处)死刑/.test(text)) return 'death';
  if (/(?:判处|执行|处|改判)[^。；]{0,12}无期徒刑/.test(text)) return 'life';
  if (longest(text, '有期徒刑') !== null) return 'fixed';
  if (longest(text, '拘役') !== null) return 'detention';
  if (longest(text, '管制') !== null) return 'control';
  if (/免予?(?:除)?刑事处[罚分]/.test(text)) return 'exempt';
  if (/无罪|不负刑事责任/.test(text)) return 'acquitted';
  return /(?:判处|单处)[^。；]{0,4}罚金/.test(text) ? 'fine' : null;
}

const TERM = `((?:${NUMERAL}|年|半|个|月|日|天|又){1,18})`;

/** The longest term after a word, in months; null for none. */
function longest(text: string, word: string): number | null {
  let most: number | null = null;
  for (const [, term] of text.matchAll(new RegExp(`${word}[为]?${TERM}`, 'gu'))) {
    const months = monthsOf(term!);
    if (months !== null && months > (most ?? 0)) most = months;
  }
  return most;
}

/** 三年六个月, 一年零二个月, 一年半, 半年, 10个月, 一个半月, 二个月十五日 (2.5): months; null for what is no term. */
export function monthsOf(term: string): number | null {
  const plainly = term.trim().replace(/^半年/u, '6个月');
  const [, years, half, months, halfMonth, days] =
    new RegExp(
      `^(?:(${NUMERAL}+)年(半)?)?[零又]*(?:(${NUMERAL}+)[个個]?(半)?月)?[零又]*(?:(${NUMERAL}+)[日天])?`,
      'u',
    ).exec(plainly) ?? [];
  if (years === undefined && months === undefined) return null;
  const read = (text: string | undefined): number | null => (text === undefined ? 0 : readNumeral(text));
  const [y, m, d] = [read(years), read(months), read(days)];
  if (y === null || m === null || d === null) return null;
  return 12 * y + (half ? 6 : 0) + m + (halfMonth ? 0.5 : 0) + d / 30;
}

function probation(text: string): number | null {
  const [, term] = new RegExp(`缓刑(?:考验期)?[为]?${TERM}`, 'u').exec(text) ?? [];
  return term === undefined ? null : monthsOf(term);
}

/** Whole lives and months alike: several defendants or offences leave the longest. */
function politicalRights(text: string): number | 'life' | null {
  return /剥夺政治权利终身/.test(text) ? 'life' : longest(text, '剥夺政治权利');
}

function fineOf(text: string): number | null {
  let sum: number | null = null;
  // 50余万元 is 50 myriads at least.
  const all = text.matchAll(
    new RegExp(`罚金(?:计)?(?:人民币?|港币|￥|¥)?\\s*(${NUMERAL}+)(?:[余餘多]([万萬亿億]))?元?`, 'gu'),
  );
  for (const [, amount, myriads = ''] of all) {
    const yuan = readNumeral(amount!.replace(/[.,，]+$/u, '') + myriads);
    if (yuan !== null && yuan > (sum ?? 0)) sum = yuan;
  }
  return sum;
}
