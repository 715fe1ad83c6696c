/** For the tests of the policy update: settings, random groups of the table policy, and their update. */
import { stream } from '../base/random.ts';
import type { Adapter } from '../engine/types.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { assignCredit, type CreditConfig, type CreditedCall } from './credit.ts';
import type { LossConfig } from './loss.ts';
import { type UpdateConfig, updatePolicy } from './policy-update.ts';
import { createTableLearner, freshState, tableAdapter, tableLogprobs, tableModel } from './test-support.ts';
import { tableTrajectory } from './test-support-rollout.ts';

export const model = tableModel(6, 0.7);
export const loss: LossConfig = {
  kind: 'grpo',
  clipLow: 0.2,
  clipHigh: 0.2,
  aggregation: 'token',
  constantLength: 8,
  kl: { coef: 0, estimator: 'k3' },
  entropy: 0,
  importance: { level: 'sequence', mode: 'mask', cap: 3 },
};
export const credit: CreditConfig = {
  scale: 'none',
  leaveOneOut: false,
  validity: 'joint',
  tolerance: 1e-6,
  stdFloor: 0,
  minGroup: 2,
};
export const settings = (change: Partial<UpdateConfig> = {}): UpdateConfig => ({
  loss,
  limits: { maxTreeTokens: 64, tokensPerPass: 256 },
  temperature: 1,
  epochs: 1,
  ...change,
});
/** An update is lr · g / (|g| + 1): smooth in the gradient, where a small ε would leave little but its sign. */
export const optimizer = { betas: [0, 0] as const, eps: 1, weightDecay: 0, clipNorm: 1e9 };

/** The sampling distribution's log-probabilities, as an endpoint under `adapter` would give them. */
export const samplerOf =
  (adapter: Adapter | null, temperature = 1) =>
  (promptIds: number[], outputIds: number[]): number[] =>
    outputIds.map(
      (id, t) =>
        tableLogprobs(
          model,
          adapter,
          [...promptIds, ...outputIds].at(promptIds.length - 1 + t)!,
          temperature,
        )[id]!,
    );

/** Groups of trajectories with random calls and rewards, sampled by `adapter`. */
export function randomGroups(
  seed: number,
  adapter: Adapter | null,
  temperature = 1,
  groups = 3,
  members = 4,
): Trajectory[][] {
  const random = stream(seed, 'groups');
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(6));
  return Array.from({ length: groups }, (_, g) =>
    Array.from({ length: members }, (_, member) => {
      const calls = Array.from({ length: 1 + random.int(3) }, (): [number[], number[]] => [
        [g, ...ids(2)],
        ids(1 + random.int(5)),
      ]);
      return tableTrajectory(random.next(), calls, samplerOf(adapter, temperature), {
        queryId: `q${g}`,
        member,
      });
    }),
  );
}
export const callsOf = (groups: Trajectory[][]): CreditedCall[] => assignCredit(groups, credit).calls;
/** The adapter's trained table, B, after updates on the calls. */
export async function trained(
  calls: CreditedCall[],
  change: Partial<UpdateConfig> = {},
  start: Adapter = tableAdapter(model, 0.5),
  rate = 0.1,
): Promise<Float32Array> {
  const learner = createTableLearner(model, freshState(start), optimizer);
  await updatePolicy(learner, calls, () => rate, settings(change));
  return [...(await learner.state()).adapter.tensors.values()][1]!.data;
}
export const gap = (a: Float32Array, b: Float32Array): number =>
  a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), 0);
