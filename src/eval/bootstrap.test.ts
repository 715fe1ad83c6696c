import { expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { meanInterval, pairedDifference } from './bootstrap.ts';

const values = (name: string, n: number) => {
  const random = stream(7, name);
  return Array.from({ length: n }, () => random.normal());
};

test('equal values have no width', () => {
  expect(meanInterval([0.5, 0.5, 0.5], stream(1, 'a'))).toEqual({ mean: 0.5, low: 0.5, high: 0.5 });
  const before = values('before', 50);
  const shifted = pairedDifference(
    before,
    before.map((value) => value + 0.25),
    stream(1, 'a'),
  );
  for (const value of Object.values(shifted)) expect(value).toBeCloseTo(0.25, 10);
});

test('two values: the resampled mean is one of three, so the interval is the whole range', () => {
  expect(meanInterval([0, 1], stream(2, 'a'))).toEqual({ mean: 0.5, low: 0, high: 1 });
});

test('on many values the interval is that of the normal approximation', () => {
  const sample = values('normal', 400);
  const center = sample.reduce((sum, value) => sum + value, 0) / 400;
  const variance = sample.reduce((sum, value) => sum + (value - center) ** 2, 0) / 399;
  const half = 1.96 * Math.sqrt(variance / 400);
  const { mean, low, high } = meanInterval(sample, stream(3, 'a'));
  expect(mean).toBeCloseTo(center, 10);
  expect(Math.abs(low - (center - half))).toBeLessThan(0.05 * half);
  expect(Math.abs(high - (center + half))).toBeLessThan(0.05 * half);
});

test('about 95 of 100 intervals hold the true mean', () => {
  let holds = 0;
  for (let i = 0; i < 200; i++) {
    const { low, high } = meanInterval(values(`trial ${i}`, 60), stream(4, 'coverage', i), 400);
    if (low <= 0 && high >= 0) holds++;
  }
  expect(holds).toBeGreaterThan(180);
  expect(holds).toBeLessThan(199);
});

test('pairs cancel what they share; the sign is after minus before', () => {
  const before = values('shared', 200);
  const noise = values('noise', 200);
  const after = before.map((value, i) => value + 0.1 + 0.1 * noise[i]!);
  const gain = pairedDifference(before, after, stream(5, 'a'), 2000);
  expect(gain.low).toBeGreaterThan(0.05);
  expect(gain.high - gain.low).toBeLessThan(0.05);
  const loss = pairedDifference(after, before, stream(5, 'a'), 2000);
  expect(loss.mean).toBeCloseTo(-gain.mean, 10);
});

test('the same stream gives the same interval; unequal lengths and nothing are errors', () => {
  const sample = values('seeded', 30);
  expect(meanInterval(sample, stream(6, 'a'), 500)).toEqual(meanInterval(sample, stream(6, 'a'), 500));
  expect(meanInterval(sample, stream(6, 'b'), 500)).not.toEqual(meanInterval(sample, stream(6, 'a'), 500));
  expect(() => pairedDifference([1], [1, 2], stream(6, 'a'))).toThrow(/1 before, 2 after/);
  expect(() => meanInterval([], stream(6, 'a'))).toThrow();
});

test('a higher confidence widens the interval on both sides, and its percentiles are those of the means', () => {
  const sample = values('confident', 40);
  const at = (confidence: number) => meanInterval(sample, stream(7, 'a'), 4000, confidence);
  const [narrow, usual, wide] = [at(0.5), at(0.95), at(0.999)];
  expect(wide.low).toBeLessThan(usual.low);
  expect(usual.low).toBeLessThan(narrow.low);
  expect(narrow.high).toBeLessThan(usual.high);
  expect(usual.high).toBeLessThan(wide.high);
  // Half the resampled means lie within the interval at 50 %, so its width is 2 × 0.6745 standard errors.
  const deviation = Math.sqrt(sample.reduce((sum, x) => sum + (x - narrow.mean) ** 2, 0) / 40);
  expect((narrow.high - narrow.low) / (2 * 0.6745 * (deviation / Math.sqrt(40)))).toBeCloseTo(1, 1);
});
