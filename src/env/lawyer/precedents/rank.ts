/**
 * Which precedents are shown (Legal-R1): base score α·Rel + (1−α)·Auth, then maximal marginal relevance, whose
 * penalty is the likeness of sentences: cases that punish differently are worth seeing together.
 */

export interface RankedCase {
  id: string;
  /** Of the first stage, ≥ 0; comparable within one list. */
  relevance: number;
  /** [0, 1]. */
  authority: number;
  /** Punishment severity, [0, 1]; null: unknown. */
  psi: number | null;
}

export interface PrecedentWeights {
  /** Share of relevance against authority, [0, 1]. */
  alpha: number;
  /** Weight of the likeness to those chosen, ≥ 0. */
  beta: number;
  /** Cases chosen, at most. */
  k: number;
}

/** Likeness of two sentences in [0, 1], 1 − |ΔPSI|; an unknown one is half like every other: neither sought nor shunned. */
export const psiLikeness = (a: number | null, b: number | null): number =>
  a === null || b === null ? 0.5 : 1 - Math.abs(a - b);

/**
 * The chosen cases, in the order of their choice: each time the one with the highest
 * α·Rel + (1−α)·Auth − β·max over those chosen of SimPSI, ties by id. Rel is the relevance over the best of the list,
 * so in [0, 1] as Auth is. Takes k cases where there are so many (the published code takes min(1, k/3): one at most,
 * and its diversity never acts).
 */
export function choosePrecedents(
  cases: readonly RankedCase[],
  { alpha, beta, k }: PrecedentWeights,
): string[] {
  const best = Math.max(0, ...cases.map(({ relevance }) => relevance));
  const left = cases.map((one) => ({
    ...one,
    base: alpha * (best === 0 ? 0 : one.relevance / best) + (1 - alpha) * one.authority,
  }));
  const chosen: typeof left = [];
  while (chosen.length < k && left.length > 0) {
    const value = ({ base, psi }: (typeof left)[number]): number =>
      base - beta * Math.max(0, ...chosen.map((one) => psiLikeness(psi, one.psi)));
    let next = 0;
    for (let i = 1; i < left.length; i++) {
      const gain = value(left[i]!) - value(left[next]!);
      if (gain > 0 || (gain === 0 && left[i]!.id < left[next]!.id)) next = i;
    }
    chosen.push(...left.splice(next, 1));
  }
  return chosen.map(({ id }) => id);
}
