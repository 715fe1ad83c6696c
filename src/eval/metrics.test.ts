import { describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { mrrAt, ndcgAt, recallAt } from './metrics.ts';

const ranked = ['x', 'a', 'y', 'b', 'z'];

describe('by hand', () => {
  test('recall', () => {
    expect(recallAt(1, ranked, ['a', 'b', 'c'])).toBe(0);
    expect(recallAt(2, ranked, ['a', 'b', 'c'])).toBeCloseTo(1 / 3);
    expect(recallAt(10, ranked, ['a', 'b', 'c'])).toBeCloseTo(2 / 3);
    expect(recallAt(10, [], ['a'])).toBe(0);
  });

  test('reciprocal rank', () => {
    expect(mrrAt(10, ranked, ['b', 'a'])).toBe(1 / 2);
    expect(mrrAt(10, ranked, ['b'])).toBe(1 / 4);
    expect(mrrAt(3, ranked, ['b'])).toBe(0);
    expect(mrrAt(10, ranked, ['x', 'y'])).toBe(1);
  });

  test('discounted gain', () => {
    // Hits at ranks 2 and 4: 1 / log2(3) + 1 / log2(5) = 0.630930 + 0.430677; three golds could give
    // 1 + 0.630930 + 0.5 = 2.130930.
    expect(ndcgAt(10, ranked, ['a', 'b', 'c'])).toBeCloseTo(1.061607 / 2.13093, 5);
    // At 2 the ideal has two places only: 0.630930 / 1.630930.
    expect(ndcgAt(2, ranked, ['a', 'b', 'c'])).toBeCloseTo(0.386853, 5);
    expect(ndcgAt(10, ['a', 'b'], ['b', 'a'])).toBe(1);
    expect(ndcgAt(10, ranked, ['c'])).toBe(0);
  });
});

describe('edges', () => {
  test('a repeated article counts once and takes one place', () => {
    const twice = ['x', 'x', 'a', 'a', 'b'];
    expect(recallAt(2, twice, ['a', 'b'])).toBe(0.5);
    expect(recallAt(10, twice, ['a', 'b'])).toBe(1);
    expect(mrrAt(10, twice, ['a'])).toBe(1 / 2);
    expect(ndcgAt(10, twice, ['a', 'a'])).toBeCloseTo(0.63093, 5);
    expect(recallAt(10, twice, ['a', 'a'])).toBe(1);
  });

  test('no gold and no sensible cut-off are errors, not numbers', () => {
    for (const metric of [recallAt, mrrAt, ndcgAt]) {
      expect(() => metric(10, ranked, [])).toThrow(/without gold/);
      expect(() => metric(0, ranked, ['a'])).toThrow(/cut-off/);
      expect(() => metric(1.5, ranked, ['a'])).toThrow(/cut-off/);
      expect(() => metric(Number.NaN, ranked, ['a'])).toThrow(/cut-off/);
    }
  });

  test('in [0, 1]; recall grows with k; moving a gold up never hurts', () => {
    const random = stream(1, 'metrics');
    const all = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    for (let round = 0; round < 300; round++) {
      const list = random.shuffle(all);
      const gold = random.shuffle(all).slice(0, 1 + random.int(4));
      for (const metric of [recallAt, mrrAt, ndcgAt]) {
        for (let k = 1; k < 9; k++) {
          const value = metric(k, list, gold);
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
          if (k > 1 && metric !== ndcgAt) expect(value).toBeGreaterThanOrEqual(metric(k - 1, list, gold));
          const at = list.indexOf(gold[0]!);
          if (at === 0) continue;
          const better = [...list];
          [better[at - 1], better[at]] = [better[at]!, better[at - 1]!];
          if (gold.includes(better[at]!)) continue;
          expect(metric(k, better, gold)).toBeGreaterThanOrEqual(value);
        }
      }
    }
  });
});
