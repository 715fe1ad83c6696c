import { expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from './half.ts';

const ALL = Uint16Array.from({ length: 65536 }, (_, i) => i);

/** By definition, in doubles. */
function halfValue(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const exponent = (h >> 10) & 31;
  const fraction = (h & 1023) / 1024;
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14);
}

test('every binary16 pattern widens to its value and comes back', () => {
  const wide = new Float32Array(65536);
  f16ToF32(ALL, wide);
  for (let h = 0; h < 65536; h++) {
    if (!Object.is(wide[h], halfValue(h))) throw new Error(`pattern ${h}: ${wide[h]}, not ${halfValue(h)}`);
  }
  const back = new Uint16Array(65536);
  f32ToF16(wide, back);
  const wrong = [...ALL].filter((h) => back[h] !== h && !Number.isNaN(halfValue(h)));
  expect(wrong).toEqual([]);
});

test('every bfloat16 pattern comes back, NaN as NaN', () => {
  const wide = new Float32Array(65536);
  bf16ToF32(ALL, wide);
  const back = new Uint16Array(65536);
  f32ToBf16(wide, back);
  const again = new Float32Array(65536);
  bf16ToF32(back, again);
  expect([...ALL].filter((h) => !Object.is(again[h], wide[h]))).toEqual([]);
  expect(wide[0x3fc0]).toBe(1.5);
});

test('narrowing picks the nearer neighbour, the even one on a tie', () => {
  const random = stream(1, 'half');
  const wide = new Float32Array(65536);
  f16ToF32(ALL, wide);
  for (let i = 0; i < 3000; i++) {
    const h = random.int(0x7bff);
    const [low, high] = [wide[h]!, wide[h + 1]!];
    const middle = (low + high) / 2;
    // Midpoints of neighbouring halves are exact in f32.
    const inputs = Float32Array.of(low + (high - low) * 0.49, middle, low + (high - low) * 0.51, -middle);
    const out = new Uint16Array(4);
    f32ToF16(inputs, out);
    const even = h % 2 === 0 ? h : h + 1;
    expect([...out]).toEqual([h, even, h + 1, even | 0x8000]);
  }
});

test('a NaN whose low bits alone are set stays NaN', () => {
  const nan = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001).buffer);
  const out = new Uint16Array(2);
  const wide = new Float32Array(2);
  f32ToBf16(nan, out);
  bf16ToF32(out, wide);
  expect([...wide]).toEqual([Number.NaN, Number.NaN]);
  f32ToF16(nan, out);
  f16ToF32(out, wide);
  expect([...wide]).toEqual([Number.NaN, Number.NaN]);
});
