import { expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { cheapestParts } from './cheapest-parts.ts';

/** Every way to cut `n` things: bit i set cuts before thing i + 1. */
function allCuts(n: number): [number, number][][] {
  return Array.from({ length: 2 ** (n - 1) }, (_, bits) => {
    const ends = Array.from({ length: n }, (_, i) => i + 1).filter((i) => i === n || (bits >> (i - 1)) & 1);
    return ends.map((end, k): [number, number] => [k === 0 ? 0 : ends[k - 1]!, end]);
  });
}

it('finds what trying every cut finds, within a limit', () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = stream(seed, 'parts');
    const sizes = Array.from({ length: 1 + random.int(9) }, () => 1 + random.int(6));
    const price = Array.from({ length: 100 }, () => random.int(20));
    const sizeOf = (start: number, end: number) => sizes.slice(start, end).reduce((a, b) => a + b, 0);
    const cost = (start: number, end: number): number =>
      sizeOf(start, end) > 12 ? Infinity : price[start * 10 + end - start]!;
    const total = (parts: [number, number][]) => parts.reduce((sum, [a, b]) => sum + cost(a, b), 0);
    const parts = cheapestParts(sizes.length, cost);
    expect(parts.flatMap(([a, b]) => sizes.slice(a, b))).toEqual(sizes);
    expect(total(parts)).toBe(Math.min(...allCuts(sizes.length).map(total)));
  }
});

it('has nothing to cut in nothing', () => {
  expect(cheapestParts(0, () => 1)).toEqual([]);
});
