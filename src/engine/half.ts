/**
 * IEEE 754 binary16 and bfloat16 as 16-bit patterns, to and from f32. Narrowing rounds to nearest, ties to
 * even; NaN stays NaN, infinities and signed zeros stay what they are.
 */
const cell = new ArrayBuffer(4);
const asFloat = new Float32Array(cell);
const asBits = new Uint32Array(cell);

/** bfloat16 is the upper half of an f32, so widening is exact. */
export function bf16ToF32(from: Uint16Array, to: Float32Array): void {
  const bits = new Uint32Array(to.buffer, to.byteOffset, to.length);
  for (let i = 0; i < from.length; i++) bits[i] = from[i]! << 16;
}

export function f32ToBf16(from: Float32Array, to: Uint16Array): void {
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length);
  for (let i = 0; i < from.length; i++) {
    const b = bits[i]!;
    const isNaNPattern = (b & 0x7fffffff) > 0x7f800000;
    // 0x7fff plus the lowest kept bit: a tie moves up exactly when the kept part is odd.
    to[i] = isNaNPattern ? (b >>> 16) | 0x40 : (b + 0x7fff + ((b >>> 16) & 1)) >>> 16;
  }
}

/** All 65536 values, made at first use: a table is the fastest way to widen a whole checkpoint. */
let halfTable: Uint32Array | undefined;

function halfBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 31;
  const fraction = half & 0x3ff;
  if (exponent === 31) return (sign | 0x7f800000 | (fraction << 13)) >>> 0;
  if (exponent > 0) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0;
  asFloat[0] = fraction * 2 ** -24;
  return (sign | asBits[0]!) >>> 0;
}

export function f16ToF32(from: Uint16Array, to: Float32Array): void {
  halfTable ??= Uint32Array.from({ length: 65536 }, (_, half) => halfBits(half));
  const bits = new Uint32Array(to.buffer, to.byteOffset, to.length);
  for (let i = 0; i < from.length; i++) bits[i] = halfTable[from[i]!]!;
}

/** A finite value beyond f16's range (|x| ≥ 65520) becomes an infinity: callers check. */
export function f32ToF16(from: Float32Array, to: Uint16Array): void {
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length);
  for (let i = 0; i < from.length; i++) {
    const sign = (bits[i]! >>> 16) & 0x8000;
    const b = bits[i]! & 0x7fffffff;
    if (b > 0x7f800000) to[i] = sign | 0x7e00;
    else if (b >= 0x477ff000) to[i] = sign | 0x7c00;
    else if (b >= 0x38800000) to[i] = sign | ((b - 0x38000000 + 0xfff + ((b >>> 13) & 1)) >>> 13);
    else {
      // Subnormal: adding 0.5 puts the value's bits, rounded to nearest even by the f32 addition, at the
      // bottom of the significand (one unit in the last place of 0.5 is 2^-24, f16's smallest step).
      asBits[0] = b;
      asFloat[0] = asFloat[0]! + 0.5;
      to[i] = sign | (asBits[0]! - 0x3f000000);
    }
  }
}
