/**
 * Reverse-mode differentiation as a table: for each operation, how the gradient of its result becomes the
 * gradients of its inputs, written with the same operations. `null`: no gradient exists (integers,
 * comparisons, leaves, decode-only forms).
 *
 * An entry returns one thunk for each input; only the thunks of inputs that need a gradient are called.
 */
import { attentionProbabilities, foldHeads, rowValues, silu } from './composites.ts';
import {
  broadcastTo,
  concat,
  cos,
  equal,
  exp,
  gather,
  gemm,
  iota,
  matmul,
  meanLast,
  minus,
  type Node,
  neg,
  over,
  plus,
  reduceSum,
  reshape,
  rope,
  rsqrt,
  scalar,
  scatterAdd,
  sigmoid,
  sin,
  slice,
  times,
  transpose,
  where,
} from './graph.ts';
import type { OpName } from './ops.ts';

type Thunk = (() => Node) | undefined;
type Gradient<K extends OpName> = (node: Node<K>, g: Node, ...inputs: Node[]) => readonly Thunk[];

/** Sum a gradient down to the shape of an operand that was broadcast. */
function unbroadcast(g: Node, x: Node): Node {
  const extra = g.shape.length - x.shape.length;
  const axes = g.shape.flatMap((d, i) => (i < extra || (x.shape[i - extra] === 1 && d !== 1) ? [i] : []));
  return reshape(reduceSum(g, axes), x.shape);
}

const number = (like: Node, value: number): Node => scalar(like.graph, value);
/** `[r]` as a column `[r, 1]`. */
const column = (x: Node): Node => reshape(x, [x.shape[0]!, 1]);

export const GRADIENTS: { readonly [K in OpName]: Gradient<K> | null } = {
  input: null,
  weight: null,
  constant: null,
  iota: null,
  less: null,
  equal: null,
  and: null,
  not: null,
  toFloat: null,
  cachedAttention: null,

  add: (_, g, a, b) => [() => unbroadcast(g, a!), () => unbroadcast(g, b!)],
  sub: (_, g, a, b) => [() => unbroadcast(g, a!), () => unbroadcast(neg(g), b!)],
  mul: (_, g, a, b) => [() => unbroadcast(times(g, b!), a!), () => unbroadcast(times(g, a!), b!)],
  div: (y, g, a, b) => [
    () => unbroadcast(over(g, b!), a!),
    () => unbroadcast(neg(over(times(g, y as unknown as Node), b!)), b!),
  ],
  where: (_, g, condition, a, b) => [
    undefined,
    () => unbroadcast(where(condition!, g, number(g, 0)), a!),
    () => unbroadcast(where(condition!, number(g, 0), g), b!),
  ],
  neg: (_, g) => [() => neg(g)],
  exp: (y, g) => [() => times(g, y as unknown as Node)],
  rsqrt: (y, g) => {
    const r = y as unknown as Node;
    return [() => times(times(g, number(g, -0.5)), times(r, times(r, r)))];
  },
  sigmoid: (y, g) => {
    const s = y as unknown as Node;
    return [() => times(g, times(s, minus(number(g, 1), s)))];
  },
  sin: (_, g, x) => [() => times(g, cos(x!))],
  cos: (_, g, x) => [() => neg(times(g, sin(x!)))],

  gemm: ({ attrs: { transA, transB } }, g, a, b, c) => [
    () => (transA ? gemm(b!, g, { transA: transB, transB: true }) : gemm(g, b!, { transB: !transB })),
    () => (transB ? gemm(g, a!, { transA: true, transB: transA }) : gemm(a!, g, { transA: !transA })),
    c && (() => unbroadcast(g, c)),
  ],
  matmul: ({ attrs: { transA, transB } }, g, a, b) => [
    () => (transA ? matmul(b!, g, { transA: transB, transB: true }) : matmul(g, b!, { transB: !transB })),
    () => (transB ? matmul(g, a!, { transA: true, transB: transA }) : matmul(a!, g, { transA: !transA })),
  ],

  reshape: (_, g, x) => [() => reshape(g, x!.shape)],
  transpose: ({ attrs: { perm } }, g) => [
    () =>
      transpose(
        g,
        perm.map((_, i) => perm.indexOf(i)),
      ),
  ],
  broadcastTo: (_, g, x) => [() => unbroadcast(g, x!)],
  slice({ attrs: { axis, start, end } }, g, x) {
    const size = x!.shape[axis] as number;
    const zeros = (n: number): Node[] =>
      n === 0
        ? []
        : [
            broadcastTo(
              number(g, 0),
              x!.shape.map((d, i) => (i === axis ? n : d)),
            ),
          ];
    return [
      () => (start === 0 && end === size ? g : concat([...zeros(start), g, ...zeros(size - end)], axis)),
    ];
  },
  concat({ attrs: { axis } }, g, ...parts) {
    let start = 0;
    return parts.map((part) => {
      const from = start;
      start += part.shape[axis] as number;
      const to = start;
      return () => slice(g, axis, from, to);
    });
  },
  after: (_, g, _x, ...others) => [() => g, ...others.map(() => undefined)],

  gather: (_, g, x, index) => [() => scatterAdd(g, index!, x!.shape[0]!), undefined],
  scatterAdd: (_, g, _updates, index) => [() => gather(g, index!), undefined],
  pick: (_, g, x, index) => [
    () => {
      const hit = equal(column(index!), iota(x!.graph, x!.shape[1]!));
      return where(hit, column(g), number(g, 0));
    },
    undefined,
  ],

  reduceSum: ({ attrs: { axes } }, g, x) => [
    () =>
      broadcastTo(
        reshape(
          g,
          x!.shape.map((d, i) => (axes.includes(i) ? 1 : d)),
        ),
        x!.shape,
      ),
  ],
  meanLast: (_, g, x) => [
    () => broadcastTo(times(g, number(g, 1 / (x!.shape[x!.shape.length - 1] as number))), x!.shape),
  ],
  softmax: (y, g) => {
    const p = y as unknown as Node;
    return [() => times(p, minus(g, reduceSum(times(g, p), [p.shape.length - 1], true)))];
  },
  logSoftmax: (y, g) => [
    () => minus(g, times(exp(y as unknown as Node), reduceSum(g, [y.shape.length - 1], true))),
  ],

  // y = x̂ · w with x̂ = x · s and s = (mean(x²) + eps)^-½:
  // dx = s · (g·w − x̂ · mean(g·w·x̂)), dw = Σ g · x̂
  rmsNorm({ attrs: { eps } }, g, x, w) {
    const s = rsqrt(plus(meanLast(times(x!, x!)), number(g, eps)));
    const normed = times(x!, s);
    const gw = times(g, w!);
    return [
      () => times(s, minus(gw, times(normed, meanLast(times(gw, normed))))),
      () => unbroadcast(times(g, normed), w!),
    ];
  },
  // a rotation: its transpose turns the other way. The tables get no gradient.
  rope: (_, g, _x, cosine, sine) => [() => rope(g, cosine!, neg(sine!)), undefined, undefined],
  // d silu(a) = s + silu · (1 − s), with s = sigmoid(a)
  swiglu(_, g, gate, up) {
    const s = sigmoid(gate!);
    const y = silu(gate!);
    return [() => times(times(g, up!), plus(s, minus(y, times(s, y)))), () => times(g, y)];
  },
  // dS = P ∘ (dO·Vᵀ − rowsum(dO ∘ O)): the row sum over d instead of over t (Dao 2022, arXiv 2205.14135)
  attention(y, g, q, k, v, mask) {
    const kv = k!.shape[1] as number;
    const p = attentionProbabilities(q!, k!, mask!);
    const dScores = (): Node => {
      const dP = reshape(matmul(foldHeads(g, kv), v!, { transB: true }), p.shape);
      return foldHeads(times(p, minus(dP, reduceSum(times(g, y as unknown as Node), [3], true))), kv);
    };
    return [
      () => reshape(matmul(dScores(), k!), q!.shape),
      () => matmul(dScores(), foldHeads(q!, kv), { transA: true }),
      () => matmul(foldHeads(p, kv), foldHeads(g, kv), { transA: true }),
      undefined,
    ];
  },
  // dlogits = coef · (onehot − p) − entropyCoef · p · (logp + H). The one-hot part never becomes a matrix:
  // it is a row of the weight (for hidden) or a scatter of hidden (for the weight).
  rowSurrogate(_, g, hidden, weight, target, coef, entropyCoef) {
    const { all, entropy, logprob } = rowValues(hidden!, weight!, target!);
    const c = column(times(coef!, g));
    const e = column(times(entropyCoef!, g));
    const soft = (): Node => {
      const inner = plus(times(all, e), plus(c, times(e, column(entropy))));
      return times(neg(exp(all)), inner);
    };
    return [
      () => gemm(soft(), weight!, {}, times(gather(weight!, target!), c)),
      () =>
        gemm(soft(), hidden!, { transA: true }, scatterAdd(times(hidden!, c), target!, weight!.shape[0]!)),
      undefined,
      () => times(logprob, g),
      () => times(entropy, g),
    ];
  },
};
