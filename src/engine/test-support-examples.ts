/**
 * One or more small uses of every operation, for the tests that enumerate the table: the type makes a new
 * operation without an example an error.
 */

import type { Dim } from './dims.ts';
import {
  after,
  and,
  attention,
  broadcastTo,
  cachedAttention,
  concat,
  constant,
  cos,
  equal,
  exp,
  type Graph,
  gather,
  gemm,
  iota,
  less,
  logSoftmax,
  matmul,
  meanLast,
  minus,
  type Node,
  neg,
  not,
  over,
  pick,
  plus,
  reduceSum,
  reshape,
  rmsNorm,
  rope,
  rowSurrogate,
  rsqrt,
  scalar,
  scatterAdd,
  sigmoid,
  sin,
  slice,
  softmax,
  swiglu,
  times,
  toFloat,
  transpose,
  weight,
  where,
} from './graph.ts';
import type { OpName } from './ops.ts';

/** Makes inputs; the tests fill f32 ones with random values and differentiate with respect to them. */
export interface Maker {
  graph: Graph;
  /** An f32 input. Positive values only with `positive`. */
  x(shape: readonly Dim[], kind?: 'positive'): Node;
  /** An i32 input with values in [0, below). */
  index(shape: readonly Dim[], below: number): Node;
}

/** Symbols used in the examples, and their values. */
export const SYMBOLS: ReadonlyMap<string, number> = new Map([
  ['N', 5],
  ['T', 3],
  ['B', 2],
  ['C', 4],
]);

type Example = (make: Maker) => Node;

const causal = (graph: Graph): Node => {
  const steps = iota(graph, 'T');
  const later = less(reshape(steps, [1, 1, 'T', 1]), reshape(steps, [1, 1, 1, 'T']));
  return where(later, scalar(graph, -1e30), scalar(graph, 0));
};

/** A value that takes no gradient: `after` passes none to what it waits for. */
const detached = (x: Node): Node => toFloat(less(x, scalar(x.graph, 0)));

export const EXAMPLES: { readonly [K in OpName]: readonly Example[] } = {
  input: [({ x }) => x(['N', 3])],
  weight: [({ graph, x }) => plus(x(['N', 3]), weight(graph, 'w', [3]))],
  constant: [({ graph, x }) => plus(x(['N', 2]), constant(graph, 'f32', [2], [1.5, -2]))],
  iota: [({ graph, x }) => times(x(['N']), toFloat(iota(graph, 'N')))],

  add: [({ x }) => plus(x(['N', 3]), x([3])), ({ x }) => plus(x(['N', 1]), x(['N', 3]))],
  sub: [({ x }) => minus(x(['N', 3]), x([3])), ({ x }) => minus(x([]), x(['N', 3]))],
  mul: [({ x }) => times(x(['N', 3]), x([3])), ({ x }) => times(x(['N', 1]), x(['N', 3]))],
  div: [
    ({ x }) => over(x(['N', 3]), x([3], 'positive')),
    ({ x }) => over(x(['N', 1]), x(['N', 3], 'positive')),
  ],
  less: [({ x, index }) => where(less(index(['N'], 4), index(['N'], 4)), x(['N']), x([]))],
  equal: [({ x, index }) => where(equal(index(['N'], 2), index(['N'], 2)), x(['N']), x([]))],
  and: [
    ({ x, index }) => {
      const [a, b] = [index(['N'], 5), index(['N', 1], 5)];
      return where(and(less(a, b), not(equal(a, b))), x(['N', 'N']), x(['N']));
    },
  ],
  not: [({ x, index }) => where(not(less(index(['N'], 4), index(['N'], 4))), x(['N']), x([]))],
  where: [({ x, index }) => where(less(index(['N', 1], 4), index([3], 4)), x([3]), x(['N', 1]))],
  neg: [({ x }) => neg(x(['N']))],
  exp: [({ x }) => exp(x(['N']))],
  rsqrt: [({ x }) => rsqrt(x(['N'], 'positive'))],
  sigmoid: [({ x }) => sigmoid(x(['N']))],
  sin: [({ x }) => sin(x(['N']))],
  cos: [({ x }) => cos(x(['N']))],
  toFloat: [({ x, index }) => times(x(['N']), toFloat(index(['N'], 9)))],

  gemm: [
    ({ x }) => gemm(x(['N', 3]), x([3, 4])),
    ({ x }) => gemm(x(['N', 3]), x([4, 3]), { transB: true }, x(['N', 4])),
    ({ x }) => gemm(x(['N', 3]), x(['N', 4]), { transA: true }, x([4])),
    ({ x }) => gemm(x(['N', 3]), x([4, 'N']), { transA: true, transB: true }),
  ],
  matmul: [
    ({ x }) => matmul(x(['B', 'T', 3]), x(['B', 3, 4])),
    ({ x }) => matmul(x(['B', 'T', 3]), x(['B', 4, 3]), { transB: true }),
    ({ x }) => matmul(x(['B', 'T', 3]), x(['B', 'T', 4]), { transA: true }),
    ({ x }) => matmul(x([2, 'B', 'T', 3]), x([2, 'B', 4, 'T']), { transA: true, transB: true }),
  ],

  reshape: [
    ({ x }) => reshape(x(['B', 'T', 2, 3]), ['B*T', 6]),
    ({ x }) => plus(reshape(x(['B*T', 6]), ['B', 'T', 2, 3]), x(['B', 'T', 1, 1])),
  ],
  transpose: [({ x }) => transpose(x(['B', 'T', 2, 3]), [2, 0, 3, 1])],
  broadcastTo: [({ x }) => times(broadcastTo(x(['N', 1]), ['N', 3]), x(['N', 3]))],
  slice: [({ x }) => slice(x(['N', 5]), 1, 1, 3), ({ x }) => slice(x(['N', 5]), 1, 0, 5)],
  concat: [({ x }) => concat([x(['N', 2]), x(['N', 1]), x(['N', 3])], 1)],
  after: [
    ({ x }) => {
      const [a, b] = [x(['N', 3]), x([4, 3])];
      const later = after(a, [detached(b), detached(a)]);
      return plus(times(a, exp(later)), reduceSum(b, [0], true));
    },
  ],

  gather: [({ x, index }) => gather(x([4, 3]), index(['N'], 4))],
  scatterAdd: [({ x, index }) => scatterAdd(x(['N', 3]), index(['N'], 4), 4)],
  pick: [({ x, index }) => pick(x(['N', 4]), index(['N'], 4))],

  reduceSum: [
    ({ x }) => reduceSum(x(['B', 'T', 3]), [0, 2]),
    ({ x }) => times(x(['B', 'T', 3]), reduceSum(x(['B', 'T', 3]), [1], true)),
  ],
  meanLast: [({ x }) => meanLast(x(['B', 'T', 3]))],
  softmax: [({ x }) => softmax(x(['B', 'T', 5]))],
  logSoftmax: [({ x }) => logSoftmax(x(['N', 6]))],
  rmsNorm: [({ x }) => rmsNorm(x(['B', 'T', 4]), x([4]), 1e-3)],
  rope: [
    ({ x, index }) => {
      const angle = reshape(toFloat(index(['B', 'T'], 5)), ['B', 'T', 1]);
      const angles = times(angle, constant(angle.graph, 'f32', [3], [1, 0.3, 0.1]));
      return rope(x(['B', 2, 'T', 6]), cos(angles), sin(angles));
    },
  ],
  swiglu: [({ x }) => swiglu(x(['N', 3]), x(['N', 3]))],
  attention: [
    ({ graph, x }) => {
      const mask = broadcastTo(causal(graph), ['B', 1, 'T', 'T']);
      const kv = ['B', 2, 'T', 3];
      return attention(x(['B', 4, 'T', 3]), x(kv), x(kv), mask);
    },
  ],
  cachedAttention: [
    ({ graph, x, index }) => {
      const [kv, past] = [
        ['B', 2, 'T', 3],
        ['B', 2, 'C', 3],
      ];
      const cached = less(
        reshape(iota(graph, 'C'), [1, 1, 1, 'C']),
        reshape(index(['B'], 4), ['B', 1, 1, 1]),
      );
      const pastMask = where(cached, scalar(graph, 0), scalar(graph, -1e30));
      const [pastK, pastV] = [x(past!), x(past!)];
      return cachedAttention({
        q: x(['B', 4, 'T', 3]),
        k: x(kv!),
        v: x(kv!),
        mask: causal(graph),
        pastK,
        pastV,
        pastMask,
      });
    },
  ],
  rowSurrogate: [
    ({ x, index }) =>
      rowSurrogate({
        hidden: x(['N', 3]),
        weight: x([6, 3]),
        target: index(['N'], 6),
        coef: x(['N']),
        entropyCoef: x(['N']),
      }),
  ],
};
