/** Lowering: one entry for each operation, from a graph node to ONNX nodes. */
import { type Dim, dimParts } from '../dims.ts';
import type { Node } from '../graph.ts';
import type { OpName } from '../ops.ts';
import { type Attribute, DATA_TYPE } from './model.ts';

/** What an entry may do: emit ONNX nodes and constants. Everything is named by strings. */
export interface Emitter {
  /** Emits one ONNX node and returns its (first) output. */
  emit(op: string, inputs: string[], attributes?: Record<string, Attribute>, domain?: string): string;
  /** Emits one ONNX node with several outputs. */
  emitMany(op: string, inputs: string[], outputs: number, attributes?: Record<string, Attribute>): string[];
  /** Name of an i64 constant `[n]`, or `[]` when `data` is a number. */
  i64(data: number[] | number): string;
  f32(data: number): string;
  i32(data: number): string;
  /** Run-time values of dimensions as i64 `[n]`. */
  shape(dims: readonly Dim[]): string;
}

/** ONNX operators with which expandComposites should not interfere. */
export const NATIVE: ReadonlySet<OpName> = new Set<OpName>(['rope']);

export const int = (value: number): Attribute => ({ kind: 'int', value });
const ints = (value: number[]): Attribute => ({ kind: 'ints', value });
const float = (value: number): Attribute => ({ kind: 'float', value });
const MS = 'com.microsoft';

type Lowering<K extends OpName> = (e: Emitter, node: Node<K>, ...inputs: string[]) => string;

const plain =
  (op: string, attributes: Record<string, Attribute> = {}) =>
  (e: Emitter, _: unknown, ...inputs: string[]): string =>
    e.emit(op, inputs, attributes);

const never = (_: Emitter, node: { op: string }): string => {
  throw new Error(`${node.op} has no ONNX form of its own`);
};

const column = (e: Emitter, index: string): string =>
  e.emit('Unsqueeze', [e.emit('Cast', [index], { to: int(DATA_TYPE.i64) }), e.i64([1])]);

export const LOWER: { readonly [K in OpName]: Lowering<K> } = {
  // leaves get their names from the emitter; composites never arrive here
  input: never,
  weight: never,
  constant: never,
  swiglu: never,
  attention: never,
  rowSurrogate: never,

  iota(e, { attrs: { size } }) {
    const n = e.emit('Squeeze', [e.emit('Cast', [e.shape([size])], { to: int(DATA_TYPE.i32) })]);
    return e.emit('Range', [e.i32(0), n, e.i32(1)]);
  },
  add: plain('Add'),
  sub: plain('Sub'),
  mul: plain('Mul'),
  div: plain('Div'),
  less: plain('Less'),
  equal: plain('Equal'),
  and: plain('And'),
  not: plain('Not'),
  where: plain('Where'),
  neg: plain('Neg'),
  exp: plain('Exp'),
  rsqrt: (e, _, x) => e.emit('Reciprocal', [e.emit('Sqrt', [x!])]),
  sigmoid: plain('Sigmoid'),
  sin: plain('Sin'),
  cos: plain('Cos'),
  toFloat: plain('Cast', { to: int(DATA_TYPE.f32) }),

  gemm: (e, { attrs: { transA, transB } }, ...inputs) =>
    e.emit('Gemm', inputs, { transA: int(Number(transA)), transB: int(Number(transB)) }),
  matmul: (e, { attrs: { transA, transB } }, ...inputs) =>
    transA || transB
      ? e.emit('FusedMatMul', inputs, { transA: int(Number(transA)), transB: int(Number(transB)) }, MS)
      : e.emit('MatMul', inputs),

  reshape(e, { attrs: { shape } }, x) {
    // one symbolic dimension can be left to Reshape itself
    const free = shape.filter((d) => typeof d === 'string').length;
    const target = free <= 1 ? e.i64(shape.map((d) => (typeof d === 'string' ? -1 : d))) : e.shape(shape);
    return e.emit('Reshape', [x!, target]);
  },
  transpose: (e, { attrs: { perm } }, x) => e.emit('Transpose', [x!], { perm: ints(perm) }),
  broadcastTo: (e, { attrs: { shape } }, x) => e.emit('Expand', [x!, e.shape(shape)]),
  slice: (e, { attrs: { axis, start, end } }, x) =>
    e.emit('Slice', [x!, e.i64([start]), e.i64([end]), e.i64([axis])]),
  concat: (e, { attrs: { axis } }, ...parts) => e.emit('Concat', parts, { axis: int(axis) }),
  // x + 0 · (a corner of each of the others): a data dependency that no optimiser may drop, since 0 · x is
  // not 0 for every x
  after(e, node, x, ...others) {
    const corner = (name: string, i: number): string => {
      const ones = node.inputs[i + 1]!.shape.map(() => 1);
      const first = e.emit('Slice', [name, e.i64(ones.map(() => 0)), e.i64(ones)]);
      return e.emit('Reshape', [first, e.i64([1])]);
    };
    const corners = others.map(corner);
    const all = corners.length === 1 ? corners[0]! : e.emit('Sum', corners);
    return e.emit('Add', [x!, e.emit('Mul', [all, e.f32(0)])]);
  },

  gather: plain('Gather', { axis: int(0) }),
  // ScatterElements runs on one thread in index order; ScatterND races when indices repeat
  scatterAdd(e, node, updates, index) {
    const target = e.emit('Expand', [e.f32(0), e.shape(node.shape)]);
    const every = e.emit('Expand', [column(e, index!), e.shape(node.inputs[0]!.shape)]);
    return e.emit('ScatterElements', [target, every, updates!], {
      axis: int(0),
      reduction: { kind: 'string', value: 'add' },
    });
  },
  pick: (e, _, x, index) =>
    e.emit('Squeeze', [e.emit('GatherElements', [x!, column(e, index!)], { axis: int(1) }), e.i64([1])]),

  reduceSum: (e, { attrs: { axes, keep } }, x) =>
    e.emit('ReduceSum', [x!, e.i64(axes)], { keepdims: int(Number(keep)) }),
  meanLast: (e, _, x) => e.emit('ReduceMean', [x!, e.i64([-1])], { keepdims: int(1) }),
  // exp of what lies far below the row's largest is a denormal number, on which a processor is ten times slower
  // (half of a tree's scores are masked). At e⁻⁶⁰ next to 1 it is as good as 0, and the kernel stays fast.
  softmax(e, _, x) {
    const top = e.emit('ReduceMax', [x!, e.i64([-1])], { keepdims: int(1) });
    const floor = e.emit('Sub', [top, e.f32(60)]);
    return e.emit('Softmax', [e.emit('Max', [x!, floor])], { axis: int(-1) });
  },
  logSoftmax: plain('LogSoftmax', { axis: int(-1) }),
  rmsNorm: (e, { attrs: { eps } }, x, w) =>
    e.emit('SimplifiedLayerNormalization', [x!, w!], { axis: int(-1), epsilon: float(eps) }),
  rope: plain('RotaryEmbedding'),

  // Scores of new columns come first: a row's softmax then sums its own terms in the same order whatever
  // the capacity. The two products stay apart for the same reason.
  cachedAttention(e, node, q, k, v, mask, pastK, pastV, pastMask) {
    const [b, h, t, d] = node.shape;
    const [, kv, c] = node.inputs[4]!.shape as [Dim, number, Dim];
    const group = (h as number) / kv;
    const folded = (rows: Dim): string => e.shape([b!, kv, foldedRows(group, t!), rows]);
    const query = e.emit('Reshape', [q!, folded(d!)]);
    const trans = { transB: int(1) };
    const scores = (keys: string, bias: string, columns: Dim): string => {
      const s = e.emit('FusedMatMul', [query, keys], trans, MS);
      return e.emit('Add', [e.emit('Reshape', [s, e.shape([b!, h!, t!, columns])]), bias]);
    };
    const all = e.emit('Concat', [scores(k!, mask!, t!), scores(pastK!, pastMask!, c)], { axis: int(3) });
    const p = e.emit('Softmax', [all], { axis: int(-1) });
    const [pNew, pPast] = e.emitMany('Split', [p, e.shape([t!, c])], 2, { axis: int(3) });
    const mix = (probabilities: string, columns: Dim, values: string): string =>
      e.emit('MatMul', [e.emit('Reshape', [probabilities, folded(columns)]), values]);
    const out = e.emit('Add', [mix(pNew!, t!, v!), mix(pPast!, c, pastV!)]);
    return e.emit('Reshape', [out, e.shape(node.shape)]);
  },
};

function foldedRows(group: number, t: Dim): Dim {
  if (typeof t === 'number') return group * t;
  const { factor, symbols } = dimParts(t);
  return [String(group * factor), ...symbols].join('*');
}
