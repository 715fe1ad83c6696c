import { describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import {
  limitsUnder,
  limitsWhenStale,
  type MismatchLimits,
  measureMismatch,
  mismatchAlarms,
} from './mismatch.ts';
import { UnusableSample, updateOnSamples } from './policy-update.ts';
import { createTableLearner, freshState, tableAdapter } from './test-support.ts';
import { configOf, newRun, play, type Run } from './test-support-loop.ts';
import { model, samplerOf, settings } from './test-support-update.ts';

const limits: MismatchLimits = { meanAbs: 0.05, maxAbs: 3, kl: 0.02, maskedFraction: 0.5, stopAfter: 3 };
const logs = (p: number[]) => Float32Array.from(p, Math.log);

describe('measureMismatch', () => {
  it('of a known pair: tokens as often as the sampler draws them give the exact divergences', () => {
    // q = (½, 3/10, 1/5), p = (2/5, 2/5, 1/5), in ten draws
    const draws = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2];
    const [q, p] = [
      [0.5, 0.3, 0.2],
      [0.4, 0.4, 0.2],
    ];
    const got = measureMismatch(logs(draws.map((i) => q![i]!)), logs(draws.map((i) => p![i]!)));
    const kl = 0.5 * Math.log(5 / 4) + 0.3 * Math.log(3 / 4);
    expect(got.k1).toBeCloseTo(kl, 6);
    expect(got.k3).toBeCloseTo(kl, 6);
    expect(got.chiSquare).toBeCloseTo(0.01 / 0.5 + 0.01 / 0.3, 6);
    expect(got.mean).toBeCloseTo(0.5 * Math.log(5 / 4) + 0.3 * Math.log(4 / 3), 6);
    expect(got.max).toBeCloseTo(Math.log(4 / 3), 6);
  });

  it('is all 0 for equal values, and for no token at all', () => {
    const zero = { mean: 0, max: 0, k1: 0, k3: 0, chiSquare: 0 };
    expect(measureMismatch(logs([0.5, 0.1]), logs([0.5, 0.1]))).toEqual(zero);
    expect(measureMismatch(new Float32Array(), new Float32Array())).toEqual(zero);
  });

  it('stays finite at the far ends, and refuses vectors of two lengths', () => {
    const far = measureMismatch(Float32Array.of(-5000, 0), Float32Array.of(0, -5000));
    for (const value of Object.values(far)) expect(Number.isFinite(value)).toBe(true);
    expect(far.max).toBe(5000);
    expect(() => measureMismatch(new Float32Array(2), new Float32Array(3))).toThrow(RangeError);
  });
});

describe('mismatchAlarms', () => {
  const calm = { mismatch: { mean: 0.05, max: 3, k1: -1, k3: 0.02, chiSquare: 9 }, maskedFraction: 0.5 };
  it('are none at the limits, and one for each figure beyond its own', () => {
    expect(mismatchAlarms(calm, limits)).toEqual([]);
    const above = { mismatch: { ...calm.mismatch, mean: 0.051, max: 3.1, k3: 0.021 }, maskedFraction: 0.51 };
    expect(mismatchAlarms(above, limits)).toEqual([
      'mean |Δ log-prob| 0.051 (meanAbs 0.05)',
      'max |Δ log-prob| 3.1 (maxAbs 3)',
      'KL(sampler‖learner), k3 0.021 (kl 0.02)',
      'masked fraction 0.51 (maskedFraction 0.5)',
    ]);
  });
  it('a figure that is not a number is one', () => {
    expect(mismatchAlarms({ ...calm, maskedFraction: Number.NaN }, limits)).toHaveLength(1);
  });
});

describe('limitsUnder', () => {
  it('all of the distribution: as they are', () => {
    expect(limitsUnder(limits, 1)).toEqual(limits);
  });
  it('top-p alone, cut as far as it may, is no alarm; a little more is one', () => {
    // q is p renormalised over half of its mass, the least that top-p 0.5 keeps
    const p = logs([0.25, 0.25]);
    const q = logs([0.5, 0.5]);
    const mismatch = measureMismatch(q, p);
    expect(mismatch.mean).toBeCloseTo(Math.LN2, 6);
    const step = { mismatch, maskedFraction: 0 };
    expect(mismatchAlarms(step, limits).join()).toMatch(/meanAbs.*kl/);
    expect(mismatchAlarms(step, limitsUnder(limits, 0.5))).toEqual([]);
    const worse = measureMismatch(logs([0.55, 0.55]), p);
    expect(mismatchAlarms({ mismatch: worse, maskedFraction: 0 }, limitsUnder(limits, 0.5)).join()).toMatch(
      /meanAbs 0\.743\).*kl/,
    );
  });
});

describe('in an update', () => {
  const adapter = tableAdapter(model, 0.5);
  const random = stream(2, 'mismatch');
  const outputs = Array.from({ length: 4 }, () => Array.from({ length: 100 }, () => random.int(6)));
  /** An update on four long samples whose sampler values are the learner's own, changed. */
  const update = (change: (values: number[]) => number[], length = 100, temperature = 1) => {
    const samples = outputs.map((ids, i) => {
      const outputIds = ids.slice(0, length);
      const logprobs = change(samplerOf(adapter, temperature)([3], outputIds));
      return { promptIds: [3], outputIds, logprobs, advantage: i % 2 ? 1 : -1 };
    });
    const limits = { maxTreeTokens: 1024, tokensPerPass: 4096 };
    const learner = createTableLearner(model, freshState(adapter));
    return updateOnSamples(learner, samples, () => 0.1, settings({ limits, temperature }));
  };

  it('0.012 a token over 100 tokens is a ratio of 3.3: beyond the cap of 3; over 90 tokens it is not', async () => {
    const lower = (values: number[]) => values.map((x) => x - 0.012);
    const [beyond, within] = [await update(lower), await update(lower, 90)];
    expect([beyond.maskedFraction, within.maskedFraction]).toEqual([1, 0]);
    for (const { mismatch } of [beyond, within]) {
      expect(mismatch.mean).toBeCloseTo(0.012, 5);
      expect(mismatch.max).toBeCloseTo(0.012, 5);
      expect(mismatch.k1).toBeCloseTo(-0.012, 5);
      expect(mismatch.k3).toBeCloseTo(Math.exp(0.012) - 1 - 0.012, 6);
    }
    // what the mask takes away is told by the masked fraction alone
    expect(mismatchAlarms(beyond, limits)).toEqual(['masked fraction 1 (maskedFraction 0.5)']);
    expect(mismatchAlarms(within, limits)).toEqual([]);
  });

  it('one temperature on both sides: nothing; raw values of a distribution sampled at 0.6: an alarm', async () => {
    const same = await update((values) => values, 100, 0.6);
    expect(same.mismatch.max).toBeLessThan(1e-5);
    expect(same.ratioMean).toBe(1);
    const raw = outputs.map((ids) => samplerOf(adapter, 1)([3], ids)).values();
    const mixed = await update(() => raw.next().value!, 100, 0.6);
    expect(mismatchAlarms(mixed, limits).join()).toMatch(/meanAbs/);
  });

  it('values shifted by one token raise every alarm that measures them', async () => {
    const shifted = await update((values) => [values.at(-1)!, ...values.slice(0, -1)]);
    expect(mismatchAlarms(shifted, limits).join()).toMatch(/meanAbs.*kl/);
  });

  for (const bad of [Number.NaN, Number.NEGATIVE_INFINITY, -9000, -9999])
    it(`${bad} is an error of its own type that names the sample`, async () => {
      const broken = update((values) => values.with(7, bad)).catch((error: unknown) => error);
      expect(await broken).toBeInstanceOf(UnusableSample);
      expect(await broken).toMatchObject({ sample: 'sample 0', message: expect.stringContaining(`${bad}`) });
    });

  it('one value too many or too few is that error too', async () => {
    await expect(update((values) => [...values, -1])).rejects.toThrow(/sample 0: 101 log-prob.* 100 sampled/);
    await expect(update((values) => values.slice(1))).rejects.toThrow(UnusableSample);
  });
});

describe('in a run', () => {
  const importance = (change: object) => ({ loss: { importance: { mode: 'none', alarm: change } } });
  /** A run whose sampler tells values that are `by` nats too low, in the training steps that `at` names. */
  const apart = (change: object, at: (step: number) => boolean, steps = 6): Run => {
    const run = newRun(configOf(steps, importance(change)));
    const complete = run.endpoint.complete.bind(run.endpoint);
    run.endpoint.complete = async (call) => {
      const answer = await complete(call);
      const wrong = call.temperature > 0 && at(run.outcomes.length + 1);
      return { ...answer, logprobs: answer.logprobs.map((x) => (wrong ? x - 0.5 : x)) };
    };
    return run;
  };
  const streaks = ({ outcomes }: Run) => outcomes.map(({ alarmsInARow }) => alarmsInARow);

  it('so many steps in a row end it, and its record is whole', async () => {
    const run = apart({ stopAfter: 3 }, (step) => step >= 2);
    const failure = await play(run).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(
      /step 4.*too far apart 3 steps in a row.*mean \|Δ log-prob\| 0\.5 .*\n.*check/,
    );
    expect(streaks(run)).toEqual([0, 1, 2, 3]);
    expect(run.kept.map(({ progress }) => [progress.step, progress.alarmsInARow])).toEqual([[2, 1]]);
  });

  it('of an older version only what the correction leaves out is judged', () => {
    const mismatch = { mean: 2, max: 9, k1: 1, k3: 4, chiSquare: 5 };
    const told = (maskedFraction: number, mean = 2) =>
      mismatchAlarms({ mismatch: { ...mismatch, mean }, maskedFraction }, limitsWhenStale(limits)).length;
    expect([told(0.5), told(0.6), told(0.5, Number.NaN)]).toEqual([0, 1, 1]);
    expect(limitsWhenStale(limits).stopAfter).toBe(3);
  });

  it('a good step between starts the count anew; null never ends it', async () => {
    const run = apart({ stopAfter: 2 }, (step) => step % 2 === 0);
    await play(run);
    expect(streaks(run)).toEqual([0, 1, 0, 1, 0, 1]);
    const endless = apart({ stopAfter: null }, () => true);
    await play(endless);
    expect(streaks(endless)).toEqual([1, 2, 3, 4, 5, 6]);
  });
});
