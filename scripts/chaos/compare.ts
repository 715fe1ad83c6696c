/** What became of a run's rollouts, against those of an undisturbed run. */
import type { Trajectory } from '../../src/rollout/trajectory.ts';

export interface Expected {
  steps: number;
  questions: number;
  members: number;
}

export interface Verdict {
  /** Rollouts that the run was to make. */
  expected: number;
  ok: number;
  failed: number;
  groups: number;
  completeGroups: number;
  /** Groups with fewer members than asked for: their members are among the failed. */
  shortGroups: number;
  /** Neither a trajectory nor a failure. */
  lost: number;
  /** Trajectories of a member that has one already. */
  duplicated: number;
  /** Steps up to the first with a failed member: after it the policy is another one. */
  comparedSteps: number;
  compared: number;
  otherRewards: number;
  otherTokens: number;
}

type Row = Pick<Trajectory, 'step' | 'queryId' | 'member' | 'ledger' | 'calls'>;
const keyOf = ({ step, queryId, member }: Row): string => `${step} ${member} ${queryId}`;
const tokensOf = ({ calls }: Row): string => JSON.stringify(calls.map(({ outputIds }) => outputIds));

/** `failures`: failed members by step. */
export function compareRuns(
  { steps, questions, members }: Expected,
  disturbed: readonly Row[],
  failures: ReadonlyMap<number, number>,
  undisturbed: readonly Row[],
): Verdict {
  const truth = new Map(undisturbed.map((row) => [keyOf(row), row]));
  const seen = new Map(disturbed.map((row) => [keyOf(row), row]));
  const expected = steps * questions * members;
  const failed = [...failures.values()].reduce((a, b) => a + b, 0);
  const firstFailed = Math.min(...[...failures].filter(([, n]) => n > 0).map(([step]) => step), steps);
  const compared = disturbed.filter(({ step }) => step <= firstFailed);
  const other = (of: (row: Row) => unknown): number =>
    compared.filter((row) => {
      const same = truth.get(keyOf(row));
      return same === undefined || of(same) !== of(row);
    }).length;
  const sizes = new Map<string, number>();
  for (const { step, queryId, member } of seen.values()) {
    const group = `${step} ${Math.floor(member / members)} ${queryId}`;
    sizes.set(group, (sizes.get(group) ?? 0) + 1);
  }
  const complete = [...sizes.values()].filter((size) => size === members).length;
  return {
    expected,
    ok: seen.size,
    failed,
    groups: steps * questions,
    completeGroups: complete,
    shortGroups: steps * questions - complete,
    lost: expected - seen.size - failed,
    duplicated: disturbed.length - seen.size,
    comparedSteps: firstFailed,
    compared: compared.length,
    otherRewards: other(({ ledger }) => ledger.total),
    otherTokens: other(tokensOf),
  };
}
