import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { assignCredit } from './credit.ts';
import { updatePolicy } from './policy-update.ts';
import { createTableLearner, freshState, tableAdapter, tableLogprobs } from './test-support.ts';
import { ledgerOf, tableTrajectory } from './test-support-rollout.ts';
import {
  callsOf,
  credit,
  gap,
  loss,
  model,
  optimizer,
  randomGroups,
  samplerOf,
  settings,
  trained,
} from './test-support-update.ts';

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
      expect(stats.mismatch.max).toBeLessThan(1e-6);
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
    expect(stats.mismatch.max).toBeGreaterThan(0.05);
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
