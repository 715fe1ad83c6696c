/**
 * The operations: shape inference, one entry each. A new operation is one entry in `op-attrs.ts`, here, in
 * `gradients.ts`, one in `onnx/lower.ts` or in `composites.ts`, and for the tests its definition in
 * `test-support-reference.ts` and an example in `test-support-examples.ts`; the types refuse a missing one, and
 * the tests enumerate the table.
 *
 * Conventions: i32 indices; matrices are row-major; `last` means the last dimension.
 */
import { broadcastShape, type Dim, dimProduct } from './dims.ts';
import type { DType, Node } from './graph.ts';
import type { OpAttrs, OpName } from './op-attrs.ts';

export type { OpAttrs, OpName } from './op-attrs.ts';

export interface Inferred {
  shape: readonly Dim[];
  dtype: DType;
}
interface OpDef<K extends OpName> {
  /** Shape and type of the result; throws (with a bare reason) when the inputs do not fit. */
  infer(inputs: readonly Node[], attrs: OpAttrs[K]): Inferred;
}

function check(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new Error(reason);
}
const same = (a: readonly Dim[], b: readonly Dim[]): boolean =>
  a.length === b.length && a.every((d, i) => d === b[i]);
const last = (shape: readonly Dim[]): Dim => shape[shape.length - 1]!;
const f32 = (shape: readonly Dim[]): Inferred => ({ shape, dtype: 'f32' });

const arithmetic = {
  infer([a, b]: readonly Node[]): Inferred {
    check(a!.dtype === b!.dtype && a!.dtype !== 'bool', 'operands need one numeric type');
    return { shape: broadcastShape(a!.shape, b!.shape), dtype: a!.dtype };
  },
};
const comparison = {
  infer: (inputs: readonly Node[]): Inferred => ({ shape: arithmetic.infer(inputs).shape, dtype: 'bool' }),
};
const unary = {
  infer([x]: readonly Node[]): Inferred {
    check(x!.dtype === 'f32', 'needs f32');
    return f32(x!.shape);
  },
};

export const OPS: { readonly [K in OpName]: OpDef<K> } = {
  input: { infer: (_, { shape, dtype }) => ({ shape, dtype }) },
  weight: { infer: (_, { shape }) => f32(shape) },
  constant: {
    infer(_, { shape, dtype, data }) {
      check(dimProduct(shape) === data.length, `${data.length} values for shape [${shape}]`);
      return { shape, dtype };
    },
  },
  iota: { infer: (_, { size }) => ({ shape: [size], dtype: 'i32' }) },

  add: arithmetic,
  sub: arithmetic,
  mul: arithmetic,
  div: arithmetic,
  less: comparison,
  equal: comparison,
  and: {
    infer([a, b]) {
      check(a!.dtype === 'bool' && b!.dtype === 'bool', 'needs booleans');
      return { shape: broadcastShape(a!.shape, b!.shape), dtype: 'bool' };
    },
  },
  not: {
    infer([x]) {
      check(x!.dtype === 'bool', 'needs a boolean');
      return { shape: x!.shape, dtype: 'bool' };
    },
  },
  where: {
    infer([condition, a, b]) {
      check(condition!.dtype === 'bool', 'needs a boolean condition');
      check(a!.dtype === b!.dtype, 'branches need one type');
      return {
        shape: broadcastShape(condition!.shape, broadcastShape(a!.shape, b!.shape)),
        dtype: a!.dtype,
      };
    },
  },
  neg: unary,
  exp: unary,
  rsqrt: unary,
  sigmoid: unary,
  sin: unary,
  cos: unary,
  toFloat: { infer: ([x]) => f32(x!.shape) },

  gemm: {
    infer([a, b, c], { transA, transB }) {
      check(a!.shape.length === 2 && b!.shape.length === 2, 'needs matrices');
      const [m, k] = transA ? [a!.shape[1]!, a!.shape[0]!] : [a!.shape[0]!, a!.shape[1]!];
      const [k2, n] = transB ? [b!.shape[1]!, b!.shape[0]!] : [b!.shape[0]!, b!.shape[1]!];
      check(k === k2, `inner dimensions ${k} and ${k2} differ`);
      if (c) check(same(broadcastShape(c.shape, [m, n]), [m, n]), 'c does not broadcast to the result');
      return f32([m, n]);
    },
  },
  matmul: {
    infer([a, b], { transA, transB }) {
      const rank = a!.shape.length;
      check(rank === b!.shape.length && rank >= 2, 'needs two tensors of one rank');
      check(same(a!.shape.slice(0, -2), b!.shape.slice(0, -2)), 'leading dimensions differ');
      const at = (n: Node, i: number): Dim => n.shape[rank + i]!;
      const [m, k] = transA ? [at(a!, -1), at(a!, -2)] : [at(a!, -2), at(a!, -1)];
      const [k2, n] = transB ? [at(b!, -1), at(b!, -2)] : [at(b!, -2), at(b!, -1)];
      check(k === k2, `inner dimensions ${k} and ${k2} differ`);
      return f32([...a!.shape.slice(0, -2), m, n]);
    },
  },

  reshape: {
    infer([x], { shape }) {
      check(dimProduct(x!.shape) === dimProduct(shape), `cannot become [${shape}]`);
      return { shape, dtype: x!.dtype };
    },
  },
  transpose: {
    infer([x], { perm }) {
      check([...perm].sort().every((p, i) => p === i) && perm.length === x!.shape.length, 'bad permutation');
      return { shape: perm.map((p) => x!.shape[p]!), dtype: x!.dtype };
    },
  },
  broadcastTo: {
    infer([x], { shape }) {
      check(same(broadcastShape(x!.shape, shape), shape), `does not broadcast to [${shape}]`);
      return { shape, dtype: x!.dtype };
    },
  },
  slice: {
    infer([x], { axis, start, end }) {
      const size = x!.shape[axis];
      check(typeof size === 'number', 'needs a dimension of known size');
      check(0 <= start && start < end && end <= size, `[${start}, ${end}) is outside [0, ${size})`);
      return { shape: x!.shape.map((d, i) => (i === axis ? end - start : d)), dtype: x!.dtype };
    },
  },
  concat: {
    infer(parts, { axis }) {
      const first = parts[0]!;
      let total = 0;
      for (const part of parts) {
        const size = part.shape[axis];
        check(typeof size === 'number', 'needs dimensions of known size');
        check(
          part.shape.every((d, i) => i === axis || d === first.shape[i]),
          'other dimensions differ',
        );
        total += size;
      }
      return { shape: first.shape.map((d, i) => (i === axis ? total : d)), dtype: first.dtype };
    },
  },
  /** The first input, once the others are there: orders a computation, changes no value. */
  after: { infer: ([x]) => ({ shape: x!.shape, dtype: x!.dtype }) },

  gather: {
    infer([x, index]) {
      check(
        x!.shape.length === 2 && index!.shape.length === 1 && index!.dtype === 'i32',
        'needs [n, c], i32 [r]',
      );
      return { shape: [index!.shape[0]!, x!.shape[1]!], dtype: x!.dtype };
    },
  },
  scatterAdd: {
    infer([updates, index], { size }) {
      check(updates!.shape.length === 2 && index!.dtype === 'i32', 'needs [r, c], i32 [r]');
      check(same(index!.shape, [updates!.shape[0]!]), 'one index for each row');
      return f32([size, updates!.shape[1]!]);
    },
  },
  pick: {
    infer([x, index]) {
      check(x!.shape.length === 2 && index!.dtype === 'i32', 'needs [r, c], i32 [r]');
      check(same(index!.shape, [x!.shape[0]!]), 'one index for each row');
      return f32(index!.shape);
    },
  },

  reduceSum: {
    infer([x], { axes, keep }) {
      const shape = x!.shape.map((d, i) => (axes.includes(i) ? 1 : d));
      return f32(keep ? shape : shape.filter((_, i) => !axes.includes(i)));
    },
  },
  meanLast: { infer: ([x]) => f32([...x!.shape.slice(0, -1), 1]) },
  softmax: unary,
  logSoftmax: unary,
  rmsNorm: {
    infer([x, w]) {
      check(same(w!.shape, [last(x!.shape)]), 'one weight for each feature');
      return f32(x!.shape);
    },
  },
  rope: {
    infer([x, cosine, sine]) {
      const [b, , t, d] = x!.shape;
      check(x!.shape.length === 4 && typeof d === 'number' && d % 2 === 0, 'needs [b, h, t, even d]');
      for (const table of [cosine!, sine!])
        check(same(table.shape, [b!, t!, d / 2]), 'tables are [b, t, d / 2]');
      return f32(x!.shape);
    },
  },
  swiglu: {
    infer([gate, up]) {
      check(same(gate!.shape, up!.shape), 'shapes differ');
      return f32(gate!.shape);
    },
  },
  /**
   * Grouped-query attention: q `[b, h, t, d]`, already scaled; k, v `[b, kv, t, d]`; additive mask
   * `[b, 1, t, t]`, no gradient → `[b, h, t, d]`. Query head i reads key head ⌊i · kv / h⌋.
   */
  attention: {
    infer([q, k, v, mask]) {
      const [b, h, t, d] = q!.shape;
      const kv = k!.shape[1];
      check(typeof h === 'number' && typeof kv === 'number' && h % kv === 0, 'heads must fold into kv heads');
      check(same(k!.shape, [b!, kv, t!, d!]) && same(v!.shape, k!.shape), 'k and v are [b, kv, t, d]');
      check(same(mask!.shape, [b!, 1, t!, t!]), 'mask is [b, 1, t, t]');
      return f32(q!.shape);
    },
  },
  /**
   * Attention of t new tokens over c cached ones and themselves: q `[b, h, t, d]`, k, v `[b, kv, t, d]`,
   * additive mask `[1, 1, t, t]`, pastK, pastV `[b, kv, c, d]`, additive pastMask `[b, 1, 1, c]`.
   */
  cachedAttention: {
    infer([q, k, v, mask, pastK, pastV, pastMask]) {
      const [b, h, t, d] = q!.shape;
      const [, kv, c] = pastK!.shape;
      check(typeof h === 'number' && typeof kv === 'number' && h % kv === 0, 'heads must fold into kv heads');
      check(same(k!.shape, [b!, kv, t!, d!]) && same(v!.shape, k!.shape), 'k and v are [b, kv, t, d]');
      check(
        same(pastK!.shape, [b!, kv, c!, d!]) && same(pastV!.shape, pastK!.shape),
        'past is [b, kv, c, d]',
      );
      check(same(mask!.shape, [1, 1, t!, t!]) && same(pastMask!.shape, [b!, 1, 1, c!]), 'bad masks');
      return f32(q!.shape);
    },
  },
  /**
   * Σ_r coef[r] · logprob(target[r] | hidden[r]) + entropyCoef[r] · entropy(r) with logits = hidden ·
   * weightᵀ: hidden `[r, c]`, weight `[v, c]`, target i32 `[r]`, coef and entropyCoef `[r]` → `[]`.
   */
  rowSurrogate: {
    infer([hidden, weight, target, coef, entropyCoef]) {
      const r = hidden!.shape[0]!;
      check(hidden!.shape[1] === weight!.shape[1], 'hidden and weight differ in width');
      for (const row of [target!, coef!, entropyCoef!]) check(same(row.shape, [r]), 'one value for each row');
      check(target!.dtype === 'i32', 'targets are i32');
      return f32([]);
    },
  },
};
