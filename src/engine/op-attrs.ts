/** What each operation is told besides its inputs. */
import type { Dim } from './dims.ts';
import type { DType } from './graph.ts';

type None = Record<string, never>;
interface Trans {
  transA: boolean;
  transB: boolean;
}

export interface OpAttrs {
  // leaves
  input: { name: string; dtype: DType; shape: Dim[] };
  weight: { name: string; shape: number[] };
  constant: { dtype: 'f32' | 'i32'; shape: number[]; data: number[] };
  iota: { size: Dim };
  // elementwise
  add: None;
  sub: None;
  mul: None;
  div: None;
  less: None;
  equal: None;
  and: None;
  not: None;
  where: None;
  neg: None;
  exp: None;
  rsqrt: None;
  sigmoid: None;
  sin: None;
  cos: None;
  toFloat: None;
  // products
  gemm: Trans;
  matmul: Trans;
  // shape
  reshape: { shape: Dim[] };
  transpose: { perm: number[] };
  broadcastTo: { shape: Dim[] };
  slice: { axis: number; start: number; end: number };
  concat: { axis: number };
  after: None;
  // rows
  gather: None;
  scatterAdd: { size: Dim };
  pick: None;
  // reductions and fused forms
  reduceSum: { axes: number[]; keep: boolean };
  meanLast: None;
  softmax: None;
  logSoftmax: None;
  rmsNorm: { eps: number };
  rope: None;
  swiglu: None;
  attention: None;
  cachedAttention: None;
  rowSurrogate: None;
}
export type OpName = keyof OpAttrs;
