import { describe, expect, it } from 'vitest';
import { rank } from './rank.ts';

const poolWith = (at: number) => ({ pool: Array.from({ length: 20 }, (_, i) => (i === at ? 'g' : `x${i}`)) });

describe('rank', () => {
  it('counts ranks from 0: 1 at the top, 1/2 at rank 6, 1/3 at rank 18', () => {
    expect(rank(poolWith(0), new Set(['g']))).toBe(1);
    expect(rank(poolWith(6), new Set(['g']))).toBe(0.5);
    expect(rank(poolWith(18), new Set(['g']))).toBeCloseTo(1 / 3, 12);
  });

  it('gives 0 to what is absent, and the mean over all gold', () => {
    expect(rank({ pool: [] }, new Set(['g']))).toBe(0);
    expect(rank(poolWith(0), new Set(['g', 'absent']))).toBe(0.5);
  });

  it('falls with every place', () => {
    for (let at = 1; at < 20; at++)
      expect(rank(poolWith(at), new Set(['g']))).toBeLessThan(rank(poolWith(at - 1), new Set(['g'])));
  });
});
