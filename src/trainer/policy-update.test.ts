import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import type { Adapter } from '../engine/types.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { assignCredit, type CreditConfig, type CreditedCall } from './credit.ts';
import type { LossConfig } from './loss.ts';
import { type UpdateConfig, updatePolicy } from './policy-update.ts';
import {
  createTableLearner,
  END,
  freshState,
  tableAdapter,
  tableLogprobs,
  tableModel,
} from './test-support.ts';
import { ledgerOf, tableCompletion, tableTrajectory } from './test-support-rollout.ts';

const model = tableModel(6, 0.7);
const loss: LossConfig = {
  kind: 'grpo',
  clipLow: 0.2,
  clipHigh: 0.2,
  aggregation: 'token',
  constantLength: 8,
  kl: { coef: 0, estimator: 'k3' },
  entropy: 0,
  importance: { level: 'sequence', mode: 'mask', cap: 3 },
};
const credit: CreditConfig = {
  scale: 'none',
  leaveOneOut: false,
  validity: 'joint',
  tolerance: 1e-6,
  stdFloor: 0,
  minGroup: 2,
};
const settings = (change: Partial<UpdateConfig> = {}): UpdateConfig => ({
  loss,
  limits: { maxTreeTokens: 64, tokensPerPass: 256 },
  temperature: 1,
  epochs: 1,
  ...change,
});
/** An update is lr · g / (|g| + 1): smooth in the gradient, where a small ε would leave little but its sign. */
const optimizer = { betas: [0, 0] as const, eps: 1, weightDecay: 0, clipNorm: 1e9 };

/** The sampling distribution's log-probabilities, as an endpoint under `adapter` would give them. */
const samplerOf =
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
function randomGroups(
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
const callsOf = (groups: Trajectory[][]): CreditedCall[] => assignCredit(groups, credit).calls;
/** The adapter's trained table, B, after updates on the calls. */
async function trained(
  calls: CreditedCall[],
  change: Partial<UpdateConfig> = {},
  start: Adapter = tableAdapter(model, 0.5),
  rate = 0.1,
): Promise<Float32Array> {
  const learner = createTableLearner(model, freshState(start), optimizer);
  await updatePolicy(learner, calls, () => rate, settings(change));
  return [...(await learner.state()).adapter.tensors.values()][1]!.data;
}
const gap = (a: Float32Array, b: Float32Array): number =>
  a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), 0);

describe('on-policy', () => {
  for (const temperature of [1, 0.6])
    it(`the first ratio is exactly 1 and the sampler agrees with the learner, at temperature ${temperature}`, async () => {
      const adapter = tableAdapter(model, 0.5);
      const learner = createTableLearner(model, freshState(adapter));
      const calls = callsOf(randomGroups(1, adapter, temperature));
      const stats = await updatePolicy(learner, calls, () => 0.1, settings({ temperature }));
      expect(stats.ratioMean).toBe(1);
      expect(stats.clipFraction).toBe(0);
      expect(stats.maskedFraction).toBe(0);
      expect(stats.mismatchMax).toBeLessThan(1e-6);
      expect('kl' in stats).toBe(false);
      expect(stats.skipped).toBe(0);
      const sampled = calls.reduce(
        (n, { trajectory, call }) => n + trajectory.calls[call]!.outputIds.length,
        0,
      );
      expect(stats.tokens).toBe(sampled);
    });

  it('the gradient is that of the policy gradient theorem: hand-computed for one token', async () => {
    const start = tableAdapter(model, 0.5);
    const [good, bad] = [2, 4].map((id, i) => tableTrajectory(1 - i, [[[1], [id]]], samplerOf(start)));
    const learner = createTableLearner(model, freshState(start), { ...optimizer, eps: 1e6 });
    const stats = await updatePolicy(learner, callsOf([[good!, bad!]]), () => 1, settings());
    // A = ±0.5, two tokens: dL/dlogit_j = Σ −A/2 (1[j = target] − p_j); the p_j cancel.
    expect(stats.gradNorm).toBeCloseTo(Math.hypot(0.25, 0.25), 6);
    // L = −½ Σ A ρ with ρ = 1: the advantages cancel.
    expect(stats.loss).toBeCloseTo(0, 7);
  });

  it('the gradient is that of every sample alone, also where they share prefixes, tokens and all', async () => {
    const start = tableAdapter(model, 0.5);
    const random = stream(1, 'shared');
    const outputs = [[2, 3], [2, 3], [2], [2, 4, 1], [2, 4], [5]];
    const group = outputs.map((ids) => tableTrajectory(random.next(), [[[3, 1], ids]], samplerOf(start)));
    const calls = callsOf([group]);
    const tokens = outputs.flat().length;
    const gradient = new Float64Array(36);
    for (const { trajectory, advantage } of calls) {
      const { promptIds, outputIds } = trajectory.calls[0]!;
      for (const [t, target] of outputIds.entries()) {
        const previous = t === 0 ? promptIds.at(-1)! : outputIds[t - 1]!;
        const logs = tableLogprobs(model, start, previous, 1);
        for (let j = 0; j < 6; j++)
          gradient[j * 6 + previous]! -= (advantage / tokens) * ((j === target ? 1 : 0) - Math.exp(logs[j]!));
      }
    }
    const before = [...start.tensors.values()][1]!.data;
    const after = await trained(calls, {}, start);
    for (const [i, g] of gradient.entries())
      expect(after[i]).toBeCloseTo(before[i]! - (0.1 * g) / (Math.abs(g) + 1), 6);
  });

  it('a reading at another temperature is seen as a mismatch of sampler and learner', async () => {
    const adapter = tableAdapter(model, 0.5);
    const learner = createTableLearner(model, freshState(adapter));
    const stats = await updatePolicy(learner, callsOf(randomGroups(1, adapter, 0.6)), () => 0.1, settings());
    expect(stats.mismatchMax).toBeGreaterThan(0.05);
  });
});

describe('more than one epoch', () => {
  it('moves the ratio away from 1, and in the end clips; the loss stays that of the first epoch', async () => {
    const adapter = tableAdapter(model, 0.5);
    const calls = callsOf(randomGroups(2, adapter));
    const runs = [];
    for (const epochs of [1, 2, 6]) {
      const learner = createTableLearner(model, freshState(adapter));
      runs.push(await updatePolicy(learner, calls, () => 0.2, settings({ epochs })));
      expect(learner.counts.update).toBe(epochs);
    }
    const [one, two, six] = runs;
    expect([one!.ratioMean, one!.clipFraction]).toEqual([1, 0]);
    expect(Math.abs(two!.ratioMean - 1)).toBeGreaterThan(1e-3);
    expect(six!.clipFraction).toBeGreaterThan(0.1);
    for (const { loss, gradNorm, entropy } of [two!, six!])
      expect([loss, gradNorm, entropy]).toEqual([one!.loss, one!.gradNorm, one!.entropy]);
  });

  it('a second epoch has a gradient of its own: zero where the clip holds every token', async () => {
    const start = tableAdapter(model, 0.5);
    const pair = [2, 4].map((id, i) => tableTrajectory(1 - i, [[[1], [id]]], samplerOf(start)));
    const calls = callsOf([pair]);
    const wide = { ...loss, clipLow: 0.99, clipHigh: 1e6 };
    const [one, clipped, free] = [
      await trained(calls, { epochs: 1 }, start, 5),
      await trained(calls, { epochs: 2 }, start, 5),
      await trained(calls, { epochs: 2, loss: wide }, start, 5),
    ];
    expect(gap(clipped, one)).toBe(0);
    expect(gap(free, one)).toBeGreaterThan(0.1);
  });

  it('takes the learning rate of each epoch', async () => {
    const calls = callsOf(randomGroups(2, tableAdapter(model, 0.5)));
    const asked: number[] = [];
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)));
    await updatePolicy(learner, calls, (epoch) => 0.1 / (1 + asked.push(epoch)), settings({ epochs: 3 }));
    expect(asked).toEqual([0, 1, 2]);
  });
});

describe('KL', () => {
  const withKl = settings({ loss: { ...loss, kl: { coef: 0.1, estimator: 'k3' } } });

  it('is 0 at step 0 of a run that starts from a trained adapter, and its reference stays where it is', async () => {
    const adapter = tableAdapter(model, 0.8);
    const learner = createTableLearner(model, freshState(adapter));
    await learner.freezeReference();
    const calls = callsOf(randomGroups(3, adapter));
    const first = await updatePolicy(learner, calls, () => 0.3, withKl);
    expect(first.kl).toBe(0);
    const second = await updatePolicy(learner, calls, () => 0.3, withKl);
    expect(second.kl).toBeGreaterThan(1e-3);
    expect((await learner.state()).reference).toEqual(adapter);
  });

  it('pulls the policy back to the reference where nothing else pulls', async () => {
    const start = tableAdapter(model, 0.8);
    const learner = createTableLearner(model, { ...freshState(start), reference: tableAdapter(model, 0) });
    const klOf = async (): Promise<number> => {
      const calls = callsOf(randomGroups(3, (await learner.state()).adapter)).map((c) => ({
        ...c,
        advantage: 0,
      }));
      return (await updatePolicy(learner, calls, () => 0.02, withKl)).kl!;
    };
    const series: number[] = [];
    for (let i = 0; i < 60; i++) series.push(await klOf());
    expect(series[0]).toBeGreaterThan(0.1);
    expect(series.at(-1)!).toBeLessThan(0.3 * series[0]!);
  });
});

describe('what does not matter', () => {
  const groups = randomGroups(4, tableAdapter(model, 0.5));
  const full = { loss: { ...loss, entropy: 0.05 } };

  it('how the samples are cut into passes: many small ones give the gradient of one', async () => {
    const calls = callsOf(groups);
    const whole = await trained(calls, { ...full, limits: { maxTreeTokens: 512, tokensPerPass: 4096 } });
    for (const maxTreeTokens of [8, 13, 32]) {
      const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)), optimizer);
      const limits = { maxTreeTokens, tokensPerPass: 32 };
      const stats = await updatePolicy(learner, calls, () => 0.1, settings({ ...full, limits }));
      expect(learner.counts.accumulate).toBeGreaterThan(2);
      expect(stats.tokensAfter).toBeLessThanOrEqual(stats.tokensBefore);
      expect(gap([...(await learner.state()).adapter.tensors.values()][1]!.data, whole)).toBeLessThan(1e-6);
    }
  });

  it('the order of the calls', async () => {
    const calls = callsOf(groups);
    const there = await trained(calls, full);
    for (const seed of [1, 2, 3]) {
      const random = stream(seed, 'order');
      expect(gap(await trained(random.shuffle(calls), full), there)).toBeLessThan(1e-6);
      // And of groups and members, from the credit on.
      const shuffled = random.shuffle(groups).map((group) => random.shuffle(group));
      expect(gap(await trained(callsOf(shuffled), full), there)).toBeLessThan(1e-6);
    }
  });

  it('a failed member: neither the mean of its group nor the loss has heard of it', async () => {
    const survivors = groups.map((group) => group.slice(0, 3));
    const { calls } = assignCredit(survivors, credit);
    for (const group of survivors) {
      const mean = (group[0]!.ledger.total + group[1]!.ledger.total + group[2]!.ledger.total) / 3;
      for (const { advantage, ledger } of group) expect(advantage).toBeCloseTo(ledger.total - mean, 10);
    }
    const counted = calls.reduce(
      (n, { trajectory, call }) => n + trajectory.calls[call]!.outputIds.length,
      0,
    );
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)), optimizer);
    expect((await updatePolicy(learner, calls, () => 0.1, settings())).tokens).toBe(counted);
  });

  it('a dropped group, in numerator or denominator, also under KL', async () => {
    const kl = { loss: { ...loss, kl: { coef: 0.2, estimator: 'k3' as const } } };
    const flat = randomGroups(9, tableAdapter(model, 0.5), 1, 1).map((group) =>
      group.map((trajectory) => ({ ...trajectory, queryId: 'flat', ledger: ledgerOf(0.4) })),
    );
    const alone = await trained(callsOf(groups), kl);
    expect(gap(await trained(callsOf([...groups, ...flat]), kl), alone)).toBe(0);
  });

  it('tokens of the prompt: only sampled tokens move the table', async () => {
    const start = tableAdapter(model, 0.5);
    const pair = [2, 4].map((id, i) => tableTrajectory(1 - i, [[[3, 5, 3, 1], [id]]], samplerOf(start)));
    const [before, after] = [[...start.tensors.values()][1]!.data, await trained(callsOf([pair]), {}, start)];
    const moved = [...after.keys()].filter((i) => after[i] !== before[i]);
    // B[next × vocab + previous]: every change is in the column of previous token 1.
    expect(moved.length).toBeGreaterThan(0);
    expect(moved.every((i) => i % 6 === 1)).toBe(true);
  });
});

describe('values that cannot be trained on', () => {
  const broken = (change: (t: Trajectory) => void): Promise<unknown> => {
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    change(groups[1]![2]!);
    return trained(callsOf(groups)).then(
      () => 'trained',
      (error: Error) => error.message,
    );
  };
  const where = /step 1.*q1.*member 2.*call 0/;

  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, -9999])
    it(`a sampler log-probability of ${bad} is an error that names the sample`, async () => {
      const message = await broken(({ calls }) => {
        calls[0]!.logprobs[0] = bad;
      });
      expect(message).toMatch(where);
      expect(message).toMatch(String(bad));
    });

  it('log-probabilities shifted by one fail, also when another call makes up for the count', async () => {
    const message = await broken(({ calls }) => {
      calls[0]!.logprobs.push(-1);
    });
    expect(message).toMatch(where);
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    groups[1]![2]!.calls[0]!.logprobs.push(-1);
    groups[0]![1]!.calls[0]!.logprobs.pop();
    await expect(trained(callsOf(groups))).rejects.toThrow(/log-probabilities/);
  });

  it('changes nothing in the learner', async () => {
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    groups[1]![2]!.calls[0]!.logprobs[0] = Number.NaN;
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)));
    const before = await learner.state();
    await expect(updatePolicy(learner, callsOf(groups), () => 0.1, settings())).rejects.toThrow();
    expect(await learner.state()).toEqual(before);
    expect(learner.counts.accumulate).toBe(0);
  });
});

describe('a gradient that is not finite', () => {
  it('is counted for each epoch it meets, and leaves adapter and moments as they were', async () => {
    const adapter = tableAdapter(model, 0.5);
    const calls = callsOf(randomGroups(6, adapter));
    const learner = createTableLearner(model, freshState(adapter));
    learner.poison(2);
    const stats = await updatePolicy(learner, calls, () => 0.1, settings({ epochs: 2 }));
    expect(stats.skipped).toBe(2);
    expect(await learner.state()).toEqual(freshState(adapter));
    learner.poison(1);
    expect((await updatePolicy(learner, calls, () => 0.1, settings({ epochs: 3 }))).skipped).toBe(1);
    expect((await learner.state()).optimizer.step).toBe(2);
  });
});

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
