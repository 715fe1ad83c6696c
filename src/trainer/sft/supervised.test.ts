import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import type { Adapter } from '../../engine/types.ts';
import type { Learner } from '../learner/learner.ts';
import { createOptimizerState } from '../optimizer.ts';
import { createTableLearner, freshState, tableAdapter, tableLogprobs, tableModel } from '../test-support.ts';
import type { Sample } from '../token-tree.ts';
import { batchSamples, type SupervisedConfig, trainSupervised } from './supervised.ts';
import { warmStart } from './warm-start.ts';

const model = tableModel(6, 0.7);
const config: SupervisedConfig = {
  epochs: 1,
  tokensPerStep: 16,
  limits: { maxTreeTokens: 32, tokensPerPass: 64 },
};
/** With ε 1 an update is smooth in the gradient. */
const optimizer = { betas: [0, 0] as const, eps: 1, weightDecay: 0, clipNorm: 1e9 };

function randomSamples(seed: number, count: number): Sample[] {
  const random = stream(seed, 'samples');
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(6));
  return Array.from({ length: count }, () => ({
    promptIds: ids(1 + random.int(4)),
    outputIds: ids(1 + random.int(4)),
  }));
}
/** Mean negative log-probability of the output tokens, one sample at a time. */
function meanLoss(samples: readonly Sample[], adapter: Adapter): number {
  const each = samples.flatMap(({ promptIds, outputIds }) =>
    outputIds.map(
      (id, t) => -tableLogprobs(model, adapter, (t === 0 ? promptIds.at(-1) : outputIds[t - 1])!, 1)[id]!,
    ),
  );
  return each.reduce((a, b) => a + b, 0) / each.length;
}
const tableOf = async (learner: Learner): Promise<Float32Array> =>
  [...(await learner.state()).adapter.tensors.values()][1]!.data;
const quiet = (): void => {};

describe('batchSamples', () => {
  const sample = (prompt: number, output: number): Sample => ({
    promptIds: new Array<number>(prompt).fill(1),
    outputIds: new Array<number>(output).fill(2),
  });

  it('fills each batch up to the limit with whole samples, in order', () => {
    // Input lengths (the last target is no input): 5, 5, 6, 4, 17, 1.
    const samples = [sample(3, 3), sample(5, 1), sample(2, 5), sample(1, 4), sample(10, 8), sample(1, 1)];
    const sizes = (limit: number): number[] => batchSamples(samples, limit).map((batch) => batch.length);
    expect(sizes(16)).toEqual([3, 1, 1, 1]);
    expect(sizes(10)).toEqual([2, 2, 1, 1]);
    expect(sizes(15)).toEqual([2, 2, 1, 1]);
    expect(sizes(1)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(sizes(1000)).toEqual([6]);
    expect(batchSamples(samples, 10).flat()).toEqual(samples);
    expect(batchSamples([], 10)).toEqual([]);
  });
});

describe('trainSupervised', () => {
  it('reports the mean loss a target token before each update, however it is cut into passes', async () => {
    const samples = randomSamples(1, 40);
    const start = tableAdapter(model, 0.5);
    const tables: Float32Array[] = [];
    for (const limits of [
      { maxTreeTokens: 8, tokensPerPass: 32 },
      { maxTreeTokens: 512, tokensPerPass: 1024 },
    ]) {
      const learner = createTableLearner(model, freshState(start), optimizer);
      const losses: number[] = [];
      const settings = { ...config, tokensPerStep: 1e6, epochs: 2, limits };
      const { steps, loss } = await trainSupervised(
        learner,
        samples,
        settings,
        () => 0.5,
        stream(1, 'x'),
        (_step, _total, now) => losses.push(now),
      );
      expect(losses[0]).toBeCloseTo(meanLoss(samples, start), 5);
      expect(losses[1]).toBeLessThan(losses[0]!);
      expect([steps, loss]).toEqual([2, losses[1]]);
      tables.push(await tableOf(learner));
    }
    for (const [i, value] of tables[0]!.entries())
      expect(Math.abs(value - tables[1]![i]!)).toBeLessThan(1e-6);
  });

  it('learns the distribution of the targets: the loss falls to its entropy', async () => {
    // After token 1: three times 2, once 3. Nothing can be below H(1/4) = 0.5623 nats.
    const samples = [2, 2, 2, 3].map((id) => ({ promptIds: [4, 1], outputIds: [id] }));
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
    const settings = { ...config, epochs: 400, tokensPerStep: 100 };
    const { loss } = await trainSupervised(learner, samples, settings, () => 0.05, stream(1, 'x'), quiet);
    expect(loss).toBeGreaterThan(0.5623);
    expect(loss).toBeLessThan(0.57);
  });

  it('gives the prompt no loss', async () => {
    const start = tableAdapter(model, 0.5);
    const learner = createTableLearner(model, freshState(start), optimizer);
    const samples = [{ promptIds: [3, 5, 4, 1], outputIds: [2, 0] }];
    await trainSupervised(learner, samples, config, () => 0.5, stream(1, 'x'), quiet);
    const [before, after] = [[...start.tensors.values()][1]!.data, await tableOf(learner)];
    const columns = new Set([...after.keys()].filter((i) => after[i] !== before[i]).map((i) => i % 6));
    expect([...columns].sort()).toEqual([1, 2]);
  });

  it('sees every sample once an epoch, in another order each time, the same for the same stream', async () => {
    const samples = Array.from({ length: 12 }, (_, i) => ({
      promptIds: [1],
      outputIds: [i % 6, i % 5, i % 4],
    }));
    const order = async (seed: number): Promise<string[][]> => {
      const seen: string[] = [];
      const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
      const recording: Learner = {
        ...learner,
        accumulate: (batch, ...rest) => {
          seen.push([...batch.targetId].join());
          return learner.accumulate(batch, ...rest);
        },
      };
      const settings = { ...config, epochs: 3, tokensPerStep: 3 };
      await trainSupervised(recording, samples, settings, () => 0.1, stream(seed, 'x'), quiet);
      return [0, 1, 2].map((epoch) => seen.slice(12 * epoch, 12 * epoch + 12));
    };
    const epochs = await order(1);
    const all = samples.map(({ outputIds }) => outputIds.join()).sort();
    for (const epoch of epochs) expect([...epoch].sort()).toEqual(all);
    expect(new Set(epochs.map((epoch) => epoch.join('|'))).size).toBe(3);
    expect(await order(1)).toEqual(epochs);
    expect(await order(2)).not.toEqual(epochs);
  });

  it('a fraction of an epoch stops within it; the rate is asked for each update of the whole plan', async () => {
    const samples = randomSamples(2, 10).map(() => ({ promptIds: [1], outputIds: [2] }));
    const plan = async (epochs: number): Promise<[number, number][]> => {
      const asked: [number, number][] = [];
      const told: [number, number][] = [];
      const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
      const settings = { ...config, epochs, tokensPerStep: 1 };
      const rateAt = (step: number, total: number): number => {
        asked.push([step, total]);
        return 0.1;
      };
      const { steps } = await trainSupervised(
        learner,
        samples,
        settings,
        rateAt,
        stream(1, 'x'),
        (step, total) => {
          told.push([step, total]);
        },
      );
      expect(learner.counts.update).toBe(steps);
      expect(told).toEqual(asked.map(([step, total]) => [step + 1, total]));
      return asked;
    };
    expect(await plan(0.25)).toEqual([0, 1, 2].map((step) => [step, 3]));
    expect(await plan(1)).toHaveLength(10);
    expect((await plan(2.5)).at(-1)).toEqual([24, 25]);
  });

  it('ends with what the callback throws, after the update that it is told of', async () => {
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
    const enough = new Error('enough');
    const settings = { ...config, tokensPerStep: 1 };
    const stop = (step: number): void => {
      if (step === 3) throw enough;
    };
    await expect(
      trainSupervised(learner, randomSamples(3, 8), settings, () => 0.1, stream(1, 'x'), stop),
    ).rejects.toBe(enough);
    expect(learner.counts.update).toBe(3);
  });

  it('one gradient that is not finite is left out; three in a row end the training with a clear error', async () => {
    const samples = randomSamples(3, 8);
    const train = (poisoned: number) => {
      const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)));
      learner.poison(poisoned);
      const training = trainSupervised(
        learner,
        samples,
        { ...config, tokensPerStep: 1 },
        () => 0.1,
        stream(1, 'x'),
        quiet,
      );
      return { learner, training };
    };
    const once = train(2);
    expect((await once.training).steps).toBe(8);
    expect((await once.learner.state()).optimizer.step).toBe(6);
    const failure = await train(3).training.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(/3 updates in a row.*not finite/);
  });
});

describe('warmStart', () => {
  it('leaves its result as the reference of the run, and an optimiser that starts anew', async () => {
    const samples = randomSamples(4, 30);
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
    const settings = { epochs: 3, tokensPerStep: 20, learningRate: 0.05, limits: config.limits, seed: 5 };
    const { steps, loss } = await warmStart(learner, samples, settings, quiet);
    const { adapter, reference, optimizer: moments } = await learner.state();
    expect(steps).toBeGreaterThan(10);
    expect(loss).toBeGreaterThan(0);
    expect(meanLoss(samples, adapter)).toBeLessThan(meanLoss(samples, tableAdapter(model, 0)));
    expect(reference).toEqual(adapter);
    expect(moments).toEqual(createOptimizerState(adapter.tensors));
  });

  it('is the same for the same seed, and another for another', async () => {
    const result = async (seed: number): Promise<Float32Array> => {
      const learner = createTableLearner(model, freshState(tableAdapter(model, 0)));
      const settings = { epochs: 2, tokensPerStep: 10, learningRate: 0.05, limits: config.limits, seed };
      await warmStart(learner, randomSamples(4, 30), settings, quiet);
      return tableOf(learner);
    };
    expect(await result(1)).toEqual(await result(1));
    expect(await result(2)).not.toEqual(await result(1));
  });
});
