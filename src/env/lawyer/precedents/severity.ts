/**
 * The Punishment Severity Index (PSI), in [0, 1]. Legal-R1 compares cases by it and does not publish its formula;
 * this one is ours, and stands here alone:
 *
 *   exempt, acquitted        0
 *   a fine alone             0.01 … 0.04, by the logarithm of its amount
 *   a term of m months       0.8 · ln(1 + m) / ln(1 + 300), m in months of prison
 *   life                     0.88
 *   death with reprieve      0.94    (commuted to life, or to 25 years, after two years: art. 50)
 *   death                    1
 *
 * Terms grow on a logarithmic scale: from one year to two is more to court and convict than from eleven to twelve.
 * 300 months, 25 years, is the longest term that there is (art. 69). What is not prison becomes months of prison as
 * the Criminal Law itself reckons custody before the judgment: a day counts a day of detention (art. 44) and two days
 * of control (art. 41). A suspended term counts 0.4 of itself: no custody unless it is revoked (arts. 72 to 77). A
 * fine beside a term changes nothing: it follows the offence, not how heavy the case is. Nor do confiscation and
 * deprivation of political rights, which go with the gravest terms by law (arts. 56, 57). A term runs from the judgment
 * less the custody before it (arts. 41, 44, 47), so that the term imposed is what counts, not what is left of it.
 */
import { isHeavier, type Sentence, sentencesOf } from './sentence.ts';

const LONGEST_MONTHS = 300;
const SUSPENDED = 0.4;
const CONTROL = 0.5;

const term = (months: number): number =>
  (0.8 * Math.log1p(Math.min(months, LONGEST_MONTHS))) / Math.log1p(LONGEST_MONTHS);

/** Severity of one sentence, in [0, 1]. A term without months counts 0. */
export function severity({
  kind,
  months,
  probationMonths,
  fine,
}: Pick<Sentence, 'kind' | 'months' | 'probationMonths' | 'fine'>): number {
  const share = probationMonths === null ? 1 : SUSPENDED;
  switch (kind) {
    case 'death':
      return 1;
    case 'death-reprieve':
      return 0.94;
    case 'life':
      return 0.88;
    case 'fixed':
    case 'detention':
      return term((months ?? 0) * share);
    case 'control':
      return term((months ?? 0) * share * CONTROL);
    case 'fine':
      return 0.01 + 0.03 * Math.min(1, Math.log10(1 + (fine ?? 0)) / 8);
    case 'exempt':
    case 'acquitted':
      return 0;
  }
}

/**
 * The sentence of the highest severity in a judgment, of equal ones the heavier penalty; null where none can be read.
 * Two years served are heavier than three suspended.
 */
export function heaviestSentence(judgment: string): Sentence | null {
  const [first, ...others] = sentencesOf(judgment);
  if (!first) return null;
  return others.reduce((heaviest, one) => {
    const more = severity(one) - severity(heaviest);
    return more > 0 || (more === 0 && isHeavier(one, heaviest)) ? one : heaviest;
  }, first);
}

/** Severity of a judgment, by its heaviest sentence; null where none can be read. */
export function severityOf(judgment: string): number | null {
  const sentence = heaviestSentence(judgment);
  return sentence && severity(sentence);
}
