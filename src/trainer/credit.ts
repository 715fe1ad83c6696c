/**
 * From the groups of a step to one advantage for every sampled token's call.
 *
 * `trajectory`: all calls of a trajectory share its advantage. `return-to-go`: a call takes the return from
 * its round on, compared with the same round of the group's other members.
 */
import type { Trajectory } from '../rollout/trajectory.ts';
import { type AdvantageConfig, groupAdvantages, type MemberReward } from './advantage.ts';

export interface CreditConfig extends AdvantageConfig {
  /** Absent: one return per trajectory. Else the returns by round (`reward/ledger.ts`). */
  roundReturns?: (trajectory: Trajectory) => number[];
  minGroup: number;
}

/** A trained call: its trajectory, its index there, its advantage. */
export interface CreditedCall {
  trajectory: Trajectory;
  call: number;
  advantage: number;
}

export interface Credit {
  /** In the order of groups, members, calls. */
  calls: CreditedCall[];
  /** Groups dropped, by reason. */
  dropped: Record<string, number>;
}

const rewardOf = ({ ledger }: Trajectory): MemberReward => {
  const validity = ledger.terms.find((term) => term.name === 'invalid')?.value ?? 0;
  return { rest: ledger.total - validity, validity };
};

/**
 * Writes `advantage` or `dropReason` into every trajectory and returns the calls that are trained. A group
 * with fewer than `minGroup` members, or without variance, is dropped whole.
 */
export function assignCredit(groups: readonly Trajectory[][], config: CreditConfig): Credit {
  const dropped: Record<string, number> = {};
  const calls: CreditedCall[] = [];
  const enough = groups.map((group) => group.length >= config.minGroup);
  const results = groupAdvantages(
    groups.map((group, g) => (enough[g] ? group.map(rewardOf) : [])),
    config,
  );
  for (const [g, group] of groups.entries()) {
    const result = results[g]!;
    if (result.kind === 'dropped') {
      dropped[result.reason] = (dropped[result.reason] ?? 0) + 1;
      for (const trajectory of group) trajectory.dropReason = result.reason;
      continue;
    }
    const byRound = config.roundReturns ? roundAdvantages(group, config.roundReturns, config) : null;
    for (const [m, trajectory] of group.entries()) {
      trajectory.advantage = result.advantages[m]!;
      for (const [c, { round }] of trajectory.calls.entries())
        calls.push({
          trajectory,
          call: c,
          advantage: byRound ? (byRound[m]![round] ?? 0) : trajectory.advantage,
        });
    }
  }
  return { calls, dropped };
}

/** `[member][round]`; a round that only one member reached has nothing to be compared with: 0. */
function roundAdvantages(
  group: readonly Trajectory[],
  returnsOf: (trajectory: Trajectory) => number[],
  config: AdvantageConfig,
): number[][] {
  const returns = group.map(returnsOf);
  const rounds = Math.max(...returns.map((r) => r.length));
  const out = group.map(() => new Array<number>(rounds).fill(0));
  for (let round = 0; round < rounds; round++) {
    const members = group.map((_, m) => m).filter((m) => returns[m]!.length > round);
    const rewards = members.map((m) => {
      const { validity } = rewardOf(group[m]!);
      return { rest: returns[m]![round]! - validity, validity };
    });
    const [result] = groupAdvantages([rewards], config);
    if (result!.kind === 'dropped') continue;
    for (const [i, m] of members.entries()) out[m]![round] = result!.advantages[i]!;
  }
  return out;
}
