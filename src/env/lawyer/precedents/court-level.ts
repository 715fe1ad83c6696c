/** The level of a Chinese court, from its name (Organic Law of the People's Courts, arts. 12 to 26). */

/** 1 basic, 2 intermediate, 3 high, 4 supreme. */
export type CourtLevel = 1 | 2 | 3 | 4;

/**
 * The level by the name; without a name, by the first court that the judgment names, in its head: what stands further
 * on may be the court of an earlier conviction. Blanks within the name are overlooked. Special courts:
 * maritime, intellectual property and financial courts are intermediate, internet courts basic; railway and forestry
 * courts and those of development zones by what their name says, basic where it says nothing; military courts are
 * high (of the army), intermediate (of a region or the central organs) or basic. Null for what names no court.
 */
export function courtLevel(court: string | null, judgment = ''): CourtLevel | null {
  const head = (court ?? judgment.slice(0, 240)).replace(/\s+/gu, '');
  const name = court === null ? (/^.*?(?:法院|法庭)/u.exec(head)?.[0] ?? '') : head;
  if (!/法院|法庭/.test(name)) return null;
  if (/最高人民法院/.test(name)) return 4;
  if (/高级人民法院|解放军军事法院|建设兵团分院/.test(name)) return 3;
  if (
    /中级(?:人民)?法院|海事法院|知识产权法院|金融法院|(?:战区|军区|总直属)[^，。\s]{0,8}军事法院/.test(name)
  )
    return 2;
  return 1;
}

/** Authority of an unknown court: that of a basic one, which most are. */
const UNKNOWN: CourtLevel = 1;

/** Authority in [0, 1]: equal steps from basic (0) to supreme (1). The paper's normalisation is not public. */
export const authority = (level: CourtLevel | null): number => ((level ?? UNKNOWN) - 1) / 3;
