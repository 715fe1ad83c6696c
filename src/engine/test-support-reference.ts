/**
 * The reference executor: every operation as its definition, in 64-bit floats, one loop at a time. Slow and
 * plain; the other executors and the gradients are tested against it.
 */
import { expandComposites } from './composites.ts';
import { dimValue } from './dims.ts';
import { isOp, type Node, reachable } from './graph.ts';
import type { OpName } from './ops.ts';

/** A tensor of any type: integers as numbers, booleans as 0 and 1. */
export interface Dense {
  shape: readonly number[];
  data: Float64Array;
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** A tensor whose element at each multi-index is `f(index)`. */
function fill(shape: readonly number[], f: (index: readonly number[]) => number): Dense {
  const data = new Float64Array(sizeOf(shape));
  const index = shape.map(() => 0);
  for (let i = 0; i < data.length; i++) {
    data[i] = f(index);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      if (++index[axis]! < shape[axis]!) break;
      index[axis] = 0;
    }
  }
  return { shape, data };
}

/** Element at a multi-index of a shape that `x` broadcasts to. */
function at(x: Dense, index: readonly number[]): number {
  const skip = index.length - x.shape.length;
  let offset = 0;
  for (let i = 0; i < x.shape.length; i++) {
    offset = offset * x.shape[i]! + (x.shape[i] === 1 ? 0 : index[i + skip]!);
  }
  return x.data[offset]!;
}

/** Replaces element `axis` of an index. */
const put = (index: readonly number[], axis: number, value: number): number[] =>
  index.map((v, i) => (i === axis ? value : v));
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);

type Kernel<K extends OpName> = (node: Node<K>, shape: readonly number[], ...x: Dense[]) => Dense;

const map =
  (f: (...values: number[]) => number) =>
  (_: unknown, shape: readonly number[], ...x: Dense[]): Dense =>
    fill(shape, (i) => f(...x.map((operand) => at(operand, i))));

const product = (
  node: { attrs: { transA: boolean; transB: boolean } },
  shape: readonly number[],
  a: Dense,
  b: Dense,
) => {
  const { transA, transB } = node.attrs;
  const rank = shape.length;
  const inner = a.shape[transA ? rank - 2 : rank - 1]!;
  return fill(shape, (i) => {
    const [lead, m, n] = [i.slice(0, -2), i[rank - 2]!, i[rank - 1]!];
    return sum(
      range(inner).map(
        (k) =>
          at(a, [...lead, ...(transA ? [k, m] : [m, k])]) * at(b, [...lead, ...(transB ? [n, k] : [k, n])]),
      ),
    );
  });
};

/** Applies `f` to each row along the last dimension. */
const rowwise = (x: Dense, f: (row: number[]) => number[]): Dense => {
  const width = x.shape[x.shape.length - 1]!;
  const rows = range(x.data.length / width).map((r) => f([...x.data.subarray(r * width, (r + 1) * width)]));
  return { shape: x.shape, data: Float64Array.from(rows.flat()) };
};
const softmaxRow = (row: number[]): number[] => {
  const top = Math.max(...row);
  const e = row.map((v) => Math.exp(v - top));
  const total = sum(e);
  return e.map((v) => v / total);
};
const logSoftmaxRow = (row: number[]): number[] => {
  const top = Math.max(...row);
  const log = Math.log(sum(row.map((v) => Math.exp(v - top)))) + top;
  return row.map((v) => v - log);
};

const composite = (node: { op: string }): Dense => {
  throw new Error(`${node.op} is a composite`);
};
const leaf = composite;

const KERNELS: { readonly [K in OpName]: Kernel<K> } = {
  input: leaf,
  weight: leaf,
  swiglu: composite,
  rope: composite,
  attention: composite,
  rowSurrogate: composite,

  constant: ({ attrs: { data } }, shape) => ({ shape, data: Float64Array.from(data) }),
  iota: (_, shape) => fill(shape, ([i]) => i!),
  add: map((a, b) => a! + b!),
  sub: map((a, b) => a! - b!),
  mul: map((a, b) => a! * b!),
  div: map((a, b) => a! / b!),
  less: map((a, b) => Number(a! < b!)),
  equal: map((a, b) => Number(a === b)),
  and: map((a, b) => a! * b!),
  not: map((a) => 1 - a!),
  where: map((c, a, b) => (c ? a! : b!)),
  neg: map((a) => -a!),
  exp: map((a) => Math.exp(a!)),
  rsqrt: map((a) => 1 / Math.sqrt(a!)),
  sigmoid: map((a) => 1 / (1 + Math.exp(-a!))),
  sin: map((a) => Math.sin(a!)),
  cos: map((a) => Math.cos(a!)),
  toFloat: map((a) => a!),

  gemm(node, shape, a, b, c) {
    const y = product(node, shape, a!, b!);
    return c ? fill(shape, (i) => at(y, i) + at(c, i)) : y;
  },
  matmul: (node, shape, a, b) => product(node, shape, a!, b!),

  reshape: (_, shape, x) => ({ shape, data: x!.data }),
  transpose: ({ attrs: { perm } }, shape, x) =>
    fill(shape, (i) =>
      at(
        x!,
        perm.map((_, d) => i[perm.indexOf(d)]!),
      ),
    ),
  broadcastTo: map((a) => a!),
  slice: ({ attrs: { axis, start } }, shape, x) => fill(shape, (i) => at(x!, put(i, axis, i[axis]! + start))),
  concat: ({ attrs: { axis } }, shape, ...parts) =>
    fill(shape, (i) => {
      let offset = i[axis]!;
      for (const part of parts) {
        if (offset < part.shape[axis]!) return at(part, put(i, axis, offset));
        offset -= part.shape[axis]!;
      }
      throw new Error('concat: index out of range');
    }),
  after: (_, __, x) => x!,

  gather: (_, shape, x, index) => fill(shape, ([r, c]) => at(x!, [index!.data[r!]!, c!])),
  scatterAdd: (_, shape, updates, index) =>
    fill(shape, ([n, c]) =>
      sum(range(index!.data.length).map((r) => (index!.data[r] === n ? at(updates!, [r, c!]) : 0))),
    ),
  pick: (_, shape, x, index) => fill(shape, ([r]) => at(x!, [r!, index!.data[r!]!])),

  reduceSum({ attrs: { axes } }, shape, x) {
    const kept = x!.shape.flatMap((_, axis) => (axes.includes(axis) ? [] : [axis]));
    const out = new Float64Array(sizeOf(shape));
    fill(x!.shape, (i) => {
      const offset = kept.reduce((o, axis) => o * x!.shape[axis]! + i[axis]!, 0);
      out[offset]! += at(x!, i);
      return 0;
    });
    return { shape, data: out };
  },
  meanLast: (_, shape, x) => ({ shape, data: rowwise(x!, (row) => [sum(row) / row.length]).data }),
  softmax: (_, __, x) => rowwise(x!, softmaxRow),
  logSoftmax: (_, __, x) => rowwise(x!, logSoftmaxRow),
  rmsNorm: ({ attrs: { eps } }, _, x, w) =>
    rowwise(x!, (row) => {
      const rms = Math.sqrt(sum(row.map((v) => v * v)) / row.length + eps);
      return row.map((v, i) => (v / rms) * w!.data[i]!);
    }),
  // query by query: new columns before it and its own, then the cached ones
  cachedAttention(_, shape, q, k, v, mask, pastK, pastV, pastMask) {
    const [, heads, steps, width] = shape as [number, number, number, number];
    const [, kvHeads, cached] = pastK!.shape as [number, number, number];
    return fill(shape, ([b, h, t, d]) => {
      const head = Math.floor((h! * kvHeads) / heads);
      const dot = (keys: Dense, j: number): number =>
        sum(range(width).map((e) => at(q!, [b!, h!, t!, e]) * at(keys, [b!, head, j, e])));
      const p = softmaxRow([
        ...range(steps).map((j) => dot(k!, j) + at(mask!, [b!, h!, t!, j])),
        ...range(cached).map((j) => dot(pastK!, j) + at(pastMask!, [b!, h!, t!, j])),
      ]);
      return sum([
        ...range(steps).map((j) => p[j]! * at(v!, [b!, head, j, d!])),
        ...range(cached).map((j) => p[steps + j]! * at(pastV!, [b!, head, j, d!])),
      ]);
    });
  },
};

/** Evaluates `outputs`; `feeds` holds every input and weight by name. */
export function evaluate(outputs: readonly Node[], feeds: ReadonlyMap<string, Dense>): Dense[] {
  const roots = expandComposites(outputs);
  const symbols = new Map<string, number>();
  const values = new Map<Node, Dense>();
  const order = reachable(roots);
  for (const node of order) {
    if (!isOp(node, 'input') && !isOp(node, 'weight')) continue;
    const value = feeds.get(node.attrs.name);
    if (!value) throw new Error(`no value for '${node.attrs.name}'`);
    node.shape.forEach((dim, axis) => {
      if (typeof dim === 'string' && !dim.includes('*')) symbols.set(dim, value.shape[axis]!);
    });
    values.set(node, value);
  }
  for (const node of order) {
    if (values.has(node)) continue;
    const shape = node.shape.map((d) => dimValue(d, symbols));
    const kernel = KERNELS[node.op] as Kernel<OpName>;
    values.set(node, kernel(node, shape, ...node.inputs.map((n) => values.get(n)!)));
  }
  return roots.map((node) => values.get(node)!);
}
