/** One entry for each operation, from a graph node to calls of TensorFlow.js. */
import type { Node } from '../graph.ts';
import type { OpName } from '../ops.ts';
import type { Tfjs, TfTensor } from './backend.ts';

/** `shape` is the result's, with every symbol resolved. Results share no tensor object with the inputs. */
type Kernel<K extends OpName> = (tf: Tfjs, node: Node<K>, shape: number[], ...inputs: TfTensor[]) => TfTensor;

const unary =
  (name: 'logicalNot' | 'neg' | 'exp' | 'rsqrt' | 'sigmoid' | 'sin' | 'cos' | 'softmax' | 'logSoftmax') =>
  (tf: Tfjs, _: unknown, __: unknown, x?: TfTensor): TfTensor =>
    tf[name](x!);

const binary =
  (name: 'add' | 'sub' | 'mul' | 'div' | 'less' | 'equal' | 'logicalAnd') =>
  (tf: Tfjs, _: unknown, __: unknown, a?: TfTensor, b?: TfTensor): TfTensor =>
    tf[name](a!, b!);

const never = (_: Tfjs, node: { op: string }): TfTensor => {
  throw new Error(`${node.op} has no TensorFlow.js form of its own`);
};

export const KERNELS: { readonly [K in OpName]: Kernel<K> } = {
  // leaves are the session's; composites never arrive here
  input: never,
  weight: never,
  constant: never,
  swiglu: never,
  rope: never,
  attention: never,
  rowSurrogate: never,

  iota: (tf, _, [size]) => tf.range(0, size!, 1, 'int32'),
  add: binary('add'),
  sub: binary('sub'),
  mul: binary('mul'),
  div: binary('div'),
  less: binary('less'),
  equal: binary('equal'),
  and: binary('logicalAnd'),
  not: unary('logicalNot'),
  where: (tf, _, __, condition, a, b) => tf.where(condition!, a!, b!),
  neg: unary('neg'),
  exp: unary('exp'),
  rsqrt: unary('rsqrt'),
  sigmoid: unary('sigmoid'),
  sin: unary('sin'),
  cos: unary('cos'),
  toFloat: (tf, _, __, x) => tf.cast(x!, 'float32'),

  gemm(tf, { attrs: { transA, transB } }, _, a, b, c) {
    const product = tf.matMul(a!, b!, transA, transB);
    return c ? tf.add(product, c) : product;
  },
  matmul: (tf, { attrs: { transA, transB } }, _, a, b) => tf.matMul(a!, b!, transA, transB),

  reshape: (tf, _, shape, x) => tf.reshape(x!, shape),
  transpose: (tf, { attrs: { perm } }, _, x) => tf.transpose(x!, perm),
  broadcastTo: (tf, _, shape, x) => tf.broadcastTo(x!, shape),
  slice: (tf, { attrs: { axis, start } }, shape, x) =>
    tf.slice(
      x!,
      shape.map((_, i) => (i === axis ? start : 0)),
      shape,
    ),
  concat: (tf, { attrs: { axis } }, _, ...parts) => tf.concat(parts, axis),
  // nodes run in order already
  after: (tf, _, __, x) => tf.clone(x!),

  gather: (tf, _, __, x, index) => tf.gather(x!, index!),
  scatterAdd: (tf, _, [size], updates, index) => tf.unsortedSegmentSum(updates!, index!, size!),
  pick: (tf, _, [rows], x, index) => tf.gatherND(x!, tf.stack([tf.range(0, rows!, 1, 'int32'), index!], 1)),

  reduceSum: (tf, { attrs: { axes, keep } }, _, x) => tf.sum(x!, axes, keep),
  meanLast: (tf, _, __, x) => tf.mean(x!, -1, true),
  softmax: unary('softmax'),
  logSoftmax: unary('logSoftmax'),
  rmsNorm(tf, { attrs: { eps } }, _, x, w) {
    const meanSquare = tf.mean(tf.square(x!), -1, true);
    const scale = tf.rsqrt(tf.add(meanSquare, tf.tensor([eps], [], 'float32')));
    return tf.mul(tf.mul(x!, scale), w!);
  },

  cachedAttention(tf, _, shape, q, k, v, mask, pastK, pastV, pastMask) {
    const [b, h, t, d] = shape as [number, number, number, number];
    const [, kv, c] = pastK!.shape as [number, number, number, number];
    const folded = [b, kv, (h / kv) * t];
    const query = tf.reshape(q!, [...folded, d]);
    const scores = (keys: TfTensor, bias: TfTensor, columns: number): TfTensor =>
      tf.add(tf.reshape(tf.matMul(query, keys, false, true), [b, h, t, columns]), bias);
    const p = tf.softmax(tf.concat([scores(k!, mask!, t), scores(pastK!, pastMask!, c)], 3));
    const values = tf.concat([v!, pastV!], 2);
    return tf.reshape(tf.matMul(tf.reshape(p, [...folded, t + c]), values, false, false), shape);
  },
};
