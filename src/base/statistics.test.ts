import { expect, test } from 'vitest';
import { mean, median, std } from './statistics.ts';

test('mean and deviation by hand', () => {
  expect(mean([1, 2, 6])).toBe(3);
  expect(std([1, 2, 6])).toBeCloseTo(Math.sqrt((4 + 1 + 9) / 3), 12);
  expect(std([7])).toBe(0);
});

test('of nothing there is neither', () => {
  expect(() => mean([])).toThrow(/no values/);
  expect(() => std([])).toThrow(/no values/);
  expect(() => median([])).toThrow(/no values/);
});

test('the median of an even number is between the two in the middle', () => {
  expect(median([5, 1, 2, 4])).toBe(3);
  expect(median([5, 1, 2])).toBe(2);
});
