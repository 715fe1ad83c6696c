/**
 * Group-relative advantages (GRPO: Shao et al. 2024, arXiv 2402.03300, section 4.1).
 *
 *   A_i = (r_i − mean) / (std + floor)      scale: group   (std of the group, population form)
 *   A_i = (r_i − mean) / (std_all + floor)  scale: batch   (std of all centred rewards of the step)
 *   A_i =  r_i − mean                       scale: none    (Dr. GRPO, arXiv 2503.20783)
 *
 * Leave-one-out replaces the mean by that of the others: (r_i − mean) · n / (n − 1) (RLOO, arXiv 2402.14740).
 *
 * Left out: no per-token or learned baseline. A group without variance is dropped whole, never in part,
 * and counted; what decides is max − min, not a standard deviation that float noise can lift above zero.
 */

import { mean, std } from '../base/statistics.ts';

/** One member's reward, the validity term apart. `validity` is 0, or the penalty of an invalid end. */
export interface MemberReward {
  /** Total without the validity term. */
  rest: number;
  validity: number;
}

export interface AdvantageConfig {
  scale: 'group' | 'batch' | 'none';
  leaveOneOut: boolean;
  validity: 'joint' | 'separate';
  tolerance: number;
  stdFloor: number;
}

/** `advantages` in the order of the members, or the reason for which the whole group was dropped. */
export type GroupAdvantages =
  | { kind: 'kept'; advantages: number[] }
  | { kind: 'dropped'; reason: 'no variance' | 'too few members' };

const spread = (values: readonly number[]): number =>
  values.length === 0 ? 0 : Math.max(...values) - Math.min(...values);

/**
 * Advantages of one step's groups.
 *
 * `validity: joint` normalises the totals. `separate` normalises the ranking of the valid members among
 * themselves and the validity term over the whole group, and adds the two: one −5 among eight then moves
 * every valid member by the same amount and leaves their ranking alone, where `joint` squeezes seven
 * different rewards into nearly one advantage.
 *
 * @param groups rewards by group; a group of fewer than 2 is dropped. Non-finite rewards throw.
 */
export function groupAdvantages(
  groups: readonly (readonly MemberReward[])[],
  config: AdvantageConfig,
): GroupAdvantages[] {
  const kept = groups.map((group) => {
    for (const { rest, validity } of group)
      if (!Number.isFinite(rest + validity))
        throw new RangeError('a reward is not finite: a failed member must not reach the advantage');
    if (group.length < 2) return { kind: 'dropped', reason: 'too few members' } as const;
    const parts = splitParts(group, config.validity);
    if (parts.every((part) => spread(part.values) <= config.tolerance))
      return { kind: 'dropped', reason: 'no variance' } as const;
    return { kind: 'kept', size: group.length, parts } as const;
  });

  const centredOf = (values: readonly number[]): number[] => {
    if (spread(values) <= config.tolerance) return values.map(() => 0);
    const m = mean(values);
    const stretch = config.leaveOneOut ? values.length / (values.length - 1) : 1;
    return values.map((v) => (v - m) * stretch);
  };
  const partCount = config.validity === 'separate' ? 2 : 1;
  const batchStd = Array.from({ length: partCount }, (_, p) => {
    const all = kept.flatMap((group) => (group.kind === 'kept' ? centredOf(group.parts[p]!.values) : []));
    return all.length > 0 ? std(all) : 0;
  });

  return kept.map((group) => {
    if (group.kind === 'dropped') return group;
    const advantages = new Array<number>(group.size).fill(0);
    for (const [p, part] of group.parts.entries()) {
      if (spread(part.values) <= config.tolerance) continue;
      const centred = centredOf(part.values);
      const divisor =
        config.scale === 'none'
          ? 1
          : (config.scale === 'group' ? std(part.values) : batchStd[p]!) + config.stdFloor;
      for (const [i, member] of part.members.entries()) advantages[member]! += centred[i]! / divisor;
    }
    return { kind: 'kept', advantages };
  });
}

/** What is normalised on its own: the totals; or the valid members' rest, and everyone's validity. */
function splitParts(
  group: readonly MemberReward[],
  validity: 'joint' | 'separate',
): { members: number[]; values: number[] }[] {
  const all = group.map((_, i) => i);
  if (validity === 'joint') return [{ members: all, values: group.map((m) => m.rest + m.validity) }];
  const valid = all.filter((i) => group[i]!.validity === 0);
  return [
    { members: valid, values: valid.map((i) => group[i]!.rest) },
    { members: all, values: group.map((m) => m.validity) },
  ];
}
