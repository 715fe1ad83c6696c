import { expect, test } from 'vitest';
import { broadcastShape, dimProduct, dimValue } from './dims.ts';

test('products are canonical: order and grouping of factors do not matter', () => {
  expect(dimProduct(['T', 2, 'B'])).toBe('2*B*T');
  expect(dimProduct(['2*T', 'B'])).toBe(dimProduct(['B', 'T', 2]));
  expect(dimProduct([3, 4])).toBe(12);
  expect(dimProduct([])).toBe(1);
  expect(dimProduct(['T', 1])).toBe('T');
  expect(dimProduct(['T', 'T'])).toBe('T*T');
});

test('a dimension has the value of its symbols', () => {
  const symbols = new Map([
    ['B', 3],
    ['T', 5],
  ]);
  expect(dimValue('2*B*T', symbols)).toBe(30);
  expect(dimValue(7, symbols)).toBe(7);
  expect(() => dimValue('X', symbols)).toThrow("dimension 'X' has no value");
});

test('broadcasting takes the larger of equal or unit dimensions', () => {
  expect(broadcastShape(['B', 1, 4], ['T', 1])).toEqual(['B', 'T', 4]);
  expect(broadcastShape([], [2])).toEqual([2]);
  expect(() => broadcastShape(['B'], ['T'])).toThrow('do not broadcast');
  expect(() => broadcastShape(['B'], [2])).toThrow('do not broadcast');
});
