import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { importanceWeights, klTerm, type LossConfig, type LossInput, lossCoefficients } from './loss.ts';
import { loss } from './test-support-update.ts';

const base: LossConfig = { ...loss, importance: { ...loss.importance, mode: 'none' } };

function randomInput(seed: number, lengths: number[]): LossInput {
  const random = stream(seed, 'loss');
  const tokens = lengths.reduce((a, b) => a + b, 0);
  const offsets = new Int32Array(lengths.length + 1);
  lengths.forEach((n, s) => {
    offsets[s + 1] = offsets[s]! + n;
  });
  const logs = (): Float32Array => Float32Array.from({ length: tokens }, () => -0.2 - 2 * random.next());
  const old = logs();
  const near = (x: number, by: number): number => x + by * (random.next() - 0.5);
  const perSample = lengths.map(() => 2 * random.next() - 1);
  return {
    offsets,
    advantages: Float32Array.from(lengths.flatMap((n, s) => new Array<number>(n).fill(perSample[s]!))),
    current: old.map((x) => near(x, 0.9)),
    old,
    sampler: old.map((x) => near(x, 0.2)),
    reference: logs(),
    entropies: logs().map((x) => -x),
  };
}

describe('lossCoefficients', () => {
  const kinds = ['grpo', 'gspo', 'reinforce'] as const;
  const aggregations = ['token', 'sequence', 'constant'] as const;
  for (const kind of kinds)
    for (const aggregation of aggregations)
      it(`${kind}/${aggregation}: the coefficients are the derivative of the loss`, () => {
        for (let seed = 0; seed < 5; seed++) {
          const input = randomInput(seed, [3, 5, 1, 4]);
          const config: LossConfig = {
            ...base,
            kind,
            aggregation,
            kl: { coef: 0.1, estimator: (['k1', 'k2', 'k3'] as const)[seed % 3]! },
            importance: { level: 'sequence', mode: 'truncate', cap: 1.05 },
          };
          const { coef } = lossCoefficients(input, config);
          for (let t = 0; t < input.current.length; t++) {
            const at = (delta: number): number => {
              // f64 differences over f32 inputs: a step that f32 holds exactly enough.
              const current = input.current.slice();
              current[t] = current[t]! + delta;
              return lossCoefficients({ ...input, current }, config).loss;
            };
            expect((at(1e-3) - at(-1e-3)) / 2e-3).toBeCloseTo(coef[t]!, 3);
          }
        }
      });

  for (const aggregation of aggregations)
    it(`cispo/${aggregation}: the bounded ratio is held fixed, so the coefficient is −w c min(ρ, 1 + εh) A`, () => {
      const lengths = [3, 5, 1, 4];
      const input = randomInput(2, lengths);
      const config: LossConfig = {
        ...base,
        kind: 'cispo',
        aggregation,
        importance: { level: 'token', mode: 'truncate', cap: 1.05 },
      };
      const { coef, stats } = lossCoefficients(input, config);
      let t = 0;
      let clipped = 0;
      for (const length of lengths)
        for (let i = 0; i < length; i++, t++) {
          const weight = { token: 1 / 13, sequence: 1 / (4 * length), constant: 1 / (4 * 8) }[aggregation];
          const correction = Math.min(Math.exp(input.old[t]! - input.sampler[t]!), 1.05);
          const ratio = Math.exp(input.current[t]! - input.old[t]!);
          if (ratio > 1.2) clipped++;
          const expected = -weight * correction * Math.min(ratio, 1.2) * input.advantages[t]!;
          expect(coef[t]).toBeCloseTo(expected, 6);
        }
      expect(clipped).toBeGreaterThan(0);
      expect(stats.clipFraction).toBeCloseTo(clipped / 13, 10);
    });

  it('on-policy the ratio is 1, nothing is clipped, and the coefficient is −A / tokens', () => {
    const input = randomInput(1, [2, 3]);
    input.current = input.old;
    input.sampler = input.old;
    const { coef, stats, loss } = lossCoefficients(input, {
      ...base,
      importance: { level: 'sequence', mode: 'mask', cap: 3 },
    });
    expect(stats).toMatchObject({ clipFraction: 0, maskedFraction: 0, ratioMean: 1 });
    for (const [t, a] of input.advantages.entries()) expect(coef[t]).toBeCloseTo(-a / 5, 6);
    expect(loss).toBeCloseTo(-input.advantages.reduce((x, y) => x + y) / 5, 6);
  });

  it('clips only what would push the ratio further: hand-computed', () => {
    const lone = (advantage: number, ratio: number, config = base): number =>
      lossCoefficients(
        {
          offsets: Int32Array.from([0, 1]),
          advantages: Float32Array.from([advantage]),
          current: Float32Array.from([-1 + Math.log(ratio)]),
          old: Float32Array.from([-1]),
          sampler: Float32Array.from([-1]),
          reference: null,
          entropies: Float32Array.from([0.5]),
        },
        config,
      ).coef[0]!;
    expect(lone(1, 1.3)).toBe(0);
    expect(lone(-1, 1.3)).toBeCloseTo(1.3, 5);
    expect(lone(-1, 0.7)).toBe(0);
    expect(lone(1, 0.7)).toBeCloseTo(-0.7, 5);
    expect(lone(1, 1.25, { ...base, clipHigh: 0.28 })).toBeCloseTo(-1.25, 5);
    expect(lone(1, 1.6, { ...base, kind: 'cispo', clipHigh: 0.28 })).toBeCloseTo(-1.28, 5);
    expect(lone(1, 1.6, { ...base, kind: 'reinforce' })).toBe(-1);
  });

  it('masked samples leave numerator and denominator: the loss is that of the kept half', () => {
    const whole = randomInput(4, [4, 4]);
    whole.sampler = whole.old.slice();
    for (let t = 4; t < 8; t++) whole.sampler[t]! -= 1;
    const masking: LossConfig = { ...base, importance: { level: 'sequence', mode: 'mask', cap: 3 } };
    const half: LossInput = {
      offsets: Int32Array.from([0, 4]),
      advantages: whole.advantages.slice(0, 4),
      current: whole.current.slice(0, 4),
      old: whole.old.slice(0, 4),
      sampler: whole.sampler.slice(0, 4),
      reference: whole.reference!.slice(0, 4),
      entropies: whole.entropies.slice(0, 4),
    };
    const a = lossCoefficients(whole, masking);
    const b = lossCoefficients(half, masking);
    expect(a.loss).toBe(b.loss);
    expect(a.stats.maskedFraction).toBe(0.5);
    expect([...a.coef.slice(0, 4)]).toEqual([...b.coef]);
    expect([...a.coef.slice(4)]).toEqual([0, 0, 0, 0]);
  });

  it('a fully masked step, an empty sample and an empty step give 0 and stay finite', () => {
    const input = randomInput(5, [3, 0]);
    input.sampler = input.old.map((x) => x - 5);
    const out = lossCoefficients(input, { ...base, importance: { level: 'sequence', mode: 'mask', cap: 3 } });
    expect(out.loss).toBe(0);
    expect([...out.coef]).toEqual([0, 0, 0]);
    expect(lossCoefficients(randomInput(1, []), base).loss).toBe(0);
  });

  it('a mismatch of 0.012 a token over 100 tokens is beyond the sequence cap of 3, not of 4', () => {
    const offsets = Int32Array.from([0, 100]);
    const old = new Float32Array(100).fill(-1);
    const sampler = new Float32Array(100).fill(-1.012);
    const weigh = (cap: number, mode: 'mask' | 'truncate', level: 'token' | 'sequence' = 'sequence') =>
      importanceWeights(old, sampler, offsets, { level, mode, cap })[50]!;
    expect(weigh(3, 'mask')).toBe(0);
    expect(weigh(3, 'truncate')).toBe(3);
    expect(weigh(4, 'mask')).toBeCloseTo(Math.exp(1.2), 3);
    expect(weigh(3, 'mask', 'token')).toBeCloseTo(Math.exp(0.012), 5);
  });

  it('far-off log-probabilities stay finite; a shifted or non-finite vector is an error', () => {
    const input = randomInput(6, [2, 2]);
    input.current = input.current.map(() => -800);
    const out = lossCoefficients(input, { ...base, kl: { coef: 0.1, estimator: 'k3' } });
    expect([...out.coef].every(Number.isFinite)).toBe(true);
    expect(() => lossCoefficients({ ...input, sampler: input.sampler.slice(1) }, base)).toThrow(
      /sampler has 3 values for 4/,
    );
    const bad = input.sampler.slice();
    bad[2] = Number.NaN;
    expect(() => lossCoefficients({ ...input, sampler: bad }, base)).toThrow(/sampler of token 2/);
    bad[2] = -9999;
    expect(() => lossCoefficients({ ...input, sampler: bad }, base)).toThrow(/sampler of token 2/);
  });

  it('a ratio stops at exp(±20): one of exp(30) counts as exp(20), one of exp(−800) is not masked', () => {
    const far = (current: number, old: number, sampler: number) => ({
      offsets: Int32Array.from([0, 1]),
      advantages: Float32Array.of(-1),
      current: Float32Array.of(current),
      old: Float32Array.of(old),
      sampler: Float32Array.of(sampler),
      reference: null,
      entropies: Float32Array.of(0),
    });
    for (const kind of ['grpo', 'gspo'] as const) {
      const { coef, stats } = lossCoefficients(far(-1, -31, -31), { ...base, kind });
      expect(coef[0]! / Math.exp(20)).toBeCloseTo(1, 6);
      expect(stats.ratioMean / Math.exp(20)).toBeCloseTo(1, 6);
    }
    for (const level of ['token', 'sequence'] as const)
      for (const mode of ['truncate', 'mask'] as const) {
        const { old, sampler, offsets } = far(-1, -801, -1);
        const [weight] = importanceWeights(old, sampler, offsets, { level, mode, cap: 3 });
        expect(weight! / Math.exp(-20)).toBeCloseTo(1, 6);
      }
  });

  it('the cap itself is within it', () => {
    const same = Float32Array.of(-1);
    const weigh = (mode: 'mask' | 'truncate', level: 'token' | 'sequence') =>
      importanceWeights(same, same, Int32Array.from([0, 1]), { level, mode, cap: 1 })[0];
    for (const level of ['token', 'sequence'] as const)
      expect([weigh('mask', level), weigh('truncate', level)]).toEqual([1, 1]);
  });

  for (const [aggregation, weights] of [
    ['token', [1 / 4, 1 / 4]],
    ['sequence', [1 / 6, 1 / 2]],
    ['constant', [1 / 16, 1 / 16]],
  ] as const)
    it(`${aggregation}: what is masked counts neither as a token nor, wholly, as a sample`, () => {
      // Kept are three tokens of the first sample and one of the third; the second is masked whole.
      const input = randomInput(9, [4, 2, 1]);
      input.current = input.old;
      input.sampler = input.old.map((x, t) => (t === 1 || t === 4 || t === 5 ? x - 5 : x));
      const importance = { level: 'token', mode: 'mask', cap: 3 } as const;
      const { coef, stats } = lossCoefficients(input, {
        ...base,
        aggregation,
        constantLength: 8,
        importance,
      });
      const [first, third] = weights;
      for (const [t, weight] of [first, 0, first, first, 0, 0, third].entries())
        expect(coef[t]).toBeCloseTo(-weight * input.advantages[t]!, 6);
      expect(stats.tokens).toBe(4);
    });

  it('vectors that are longer than the samples are an error; an advantage may be as low as it likes', () => {
    const input = randomInput(10, [2]);
    const longer = Float32Array.of(...input.current, -1);
    expect(() => lossCoefficients({ ...input, current: longer }, base)).toThrow(
      /current has 3 values for 2 sampled tokens/,
    );
    const advantages = Float32Array.of(-10_000, 1);
    expect(lossCoefficients({ ...input, advantages }, base).coef[0]).toBeGreaterThan(0);
  });

  it('the told KL is k3 of the learner over its reference, whichever one is trained on', () => {
    const input = randomInput(11, [3, 2]);
    let expected = 0;
    for (let t = 0; t < 5; t++) {
      const d = input.current[t]! - input.reference![t]!;
      expected += (Math.exp(-d) - 1 + d) / 5;
    }
    for (const estimator of ['k1', 'k2', 'k3'] as const) {
      const { stats } = lossCoefficients(input, { ...base, kl: { coef: 0.1, estimator } });
      expect(stats.kl).toBeCloseTo(expected, 6);
    }
  });

  it('without KL there is no kl key at all', () => {
    expect('kl' in lossCoefficients({ ...randomInput(7, [2]), reference: null }, base).stats).toBe(false);
  });

  it('entropy bonus: the factor of the entropy gradient is −e · w', () => {
    const { entropyCoef } = lossCoefficients(randomInput(8, [4]), { ...base, entropy: 0.01 });
    expect(entropyCoef[0]).toBeCloseTo(-0.0025, 8);
  });

  it('entropy bonus: the loss falls by e times the mean entropy', () => {
    const input = randomInput(12, [3, 1]);
    const by = lossCoefficients(input, base).loss - lossCoefficients(input, { ...base, entropy: 0.01 }).loss;
    expect(by).toBeCloseTo(0.01 * input.entropies.reduce((a, b) => a + b / 4, 0), 8);
  });
});

describe('klTerm', () => {
  it('k1, k2, k3 at a known log-ratio', () => {
    expect(klTerm('k1', 0.5)).toEqual({ value: 0.5, slope: 1 });
    expect(klTerm('k2', 0.5)).toEqual({ value: 0.125, slope: 0.5 });
    expect(klTerm('k3', 0.5).value).toBeCloseTo(0.1065307, 6);
    expect(klTerm('k3', 0).slope).toBe(0);
  });
});
