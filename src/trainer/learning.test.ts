import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { assignCredit } from './credit.ts';
import { type UpdateConfig, updatePolicy } from './policy-update.ts';
import { createTableLearner, END, freshState, tableAdapter } from './test-support.ts';
import { tableCompletion, tableTrajectory } from './test-support-rollout.ts';
import { credit, loss, model, samplerOf, settings } from './test-support-update.ts';

describe('learning, by credit and update alone', () => {
  /** Steps of 4 groups of 8 on the table policy; gives the mean of `reward` at each step. */
  async function run(
    reward: (outputIds: number[]) => number,
    steps: number,
    change: Partial<UpdateConfig> = {},
    stale = false,
  ): Promise<number[]> {
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
    const start = tableAdapter(model, 0);
    const means: number[] = [];
    for (let step = 0; step < steps; step++) {
      const adapter = stale ? start : (await learner.state()).adapter;
      const groups = Array.from({ length: 4 }, (_, g) =>
        Array.from({ length: 8 }, (_, member) => {
          const call = {
            model: 'm',
            promptIds: [1 + g],
            maxTokens: 12,
            temperature: 1,
            seed: stream(step, 'seed', g, member).int(2 ** 31),
            stopTokenIds: [END],
          };
          const { promptIds, outputIds } = tableCompletion(model, adapter, call);
          return tableTrajectory(reward(outputIds), [[promptIds, outputIds]], samplerOf(adapter));
        }),
      );
      const all = groups.flat();
      means.push(all.reduce((sum, { ledger }) => sum + ledger.total, 0) / all.length);
      const { calls } = assignCredit(groups, { ...credit, scale: 'group', stdFloor: 0.05 });
      if (calls.length > 0) await updatePolicy(learner, calls, () => 0.1, settings(change));
    }
    return means;
  }

  it('a toy reward that pays longer outputs makes them longer', async () => {
    const lengths = await run((ids) => ids.length, 30);
    expect(lengths[0]).toBeLessThan(9);
    expect(lengths.at(-1)).toBeGreaterThan(11);
  });

  it('and the diagnostic sees rollouts that never get the new weights', async () => {
    const lengths = await run((ids) => ids.length, 30, {}, true);
    expect(lengths.at(-1)).toBeLessThan(9);
  });

  it('a reward that pays shorter ones makes them shorter: the sign is right', async () => {
    const costs = await run((ids) => -ids.length, 30);
    expect(costs.at(-1)).toBeGreaterThan(-2);
  });

  for (const kind of ['grpo', 'gspo', 'cispo', 'reinforce'] as const)
    for (const aggregation of ['token', 'sequence', 'constant'] as const)
      it(`${kind} with ${aggregation} weights learns which token pays`, async () => {
        const change = { loss: { ...loss, kind, aggregation }, epochs: 2 };
        const hits = await run((ids) => (ids[0] === 3 ? 1 : 0), 25, change);
        expect(hits[0]).toBeLessThan(0.5);
        expect(hits.at(-1)).toBeGreaterThan(0.9);
      });
});
