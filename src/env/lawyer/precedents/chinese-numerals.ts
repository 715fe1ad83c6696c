/** Numbers as Chinese judgments write them: 三年六个月, 二十六万元, 人民币叁仟元, 5,080元, 3.5万元. */

const DIGITS: Record<string, number> = {};
for (const [value, forms] of [
  '零〇○０0',
  '一壹１1',
  '二贰貳两兩２2',
  '三叁叄參３3',
  '四肆４4',
  '五伍５5',
  '六陆陸６6',
  '七柒７7',
  '八捌８8',
  '九玖９9',
].entries())
  for (const form of forms) DIGITS[form] = value;
/** 廿六 is twenty-six: the digit and its unit in one. */
const TENS: Record<string, number> = { 廿: 20, 卅: 30 };
const UNITS: Record<string, number> = { 十: 10, 拾: 10, 百: 100, 佰: 100, 千: 1000, 仟: 1000 };
const MYRIADS: Record<string, number> = { 万: 1e4, 萬: 1e4, 亿: 1e8, 億: 1e8 };

/** Characters of a number. */
export const NUMERAL =
  '[零〇○一壹二贰貳两兩三叁叄參四肆五伍六陆陸七柒八捌九玖十拾廿卅百佰千仟万萬亿億0-9０-９.,，]';

/** The value of a numeral, or null for what is none, as a 万 alone, or too large. Grouping commas are overlooked. */
export function readNumeral(text: string): number | null {
  const characters = [...text.replace(/[,，\s]/g, '')];
  if (characters.length === 0) return null;
  let total = 0;
  let section = 0;
  let digits = '';
  const pending = (): number => (digits === '' ? 0 : Number(digits));
  for (const character of characters) {
    const unit = UNITS[character];
    const myriad = MYRIADS[character];
    if (character in DIGITS) digits += DIGITS[character];
    else if (character === '.' && digits !== '' && !digits.includes('.')) digits += '.';
    else if (character in TENS && digits === '') section += TENS[character]!;
    else if (unit !== undefined) {
      // 十五 is fifteen: a unit without a digit counts once.
      section += (digits === '' ? 1 : pending()) * unit;
      digits = '';
    } else if (myriad !== undefined) {
      total = (total + section + pending()) * myriad;
      if (total === 0) return null;
      section = 0;
      digits = '';
    } else return null;
  }
  const value = total + section + pending();
  return Number.isFinite(value) ? value : null;
}
