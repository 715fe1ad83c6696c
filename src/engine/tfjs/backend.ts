/**
 * TensorFlow.js as the interpreter uses it. Its packages are never needed to build or to test the rest, so
 * their types are not either: this is the part of `@tensorflow/tfjs-core` (4.22) that every backend has.
 */

export interface TfTensor {
  readonly shape: number[];
  data(): Promise<Float32Array | Int32Array | Uint8Array>;
  dispose(): void;
}

type Dtype = 'float32' | 'int32' | 'bool';
type Unary = (x: TfTensor) => TfTensor;
type Binary = (a: TfTensor, b: TfTensor) => TfTensor;

/** Elementwise functions broadcast as NumPy does. */
export interface Tfjs {
  ready(): Promise<void>;
  backend(): object;
  /** Runs `f` and frees every tensor that it made, except the one it returns. */
  tidy(f: () => TfTensor): TfTensor;
  tensor(data: Float32Array | Int32Array | number[], shape: number[], dtype: Dtype): TfTensor;
  range(start: number, stop: number, step: number, dtype: 'int32'): TfTensor;

  add: Binary;
  sub: Binary;
  mul: Binary;
  div: Binary;
  less: Binary;
  equal: Binary;
  logicalAnd: Binary;
  logicalNot: Unary;
  where(condition: TfTensor, a: TfTensor, b: TfTensor): TfTensor;
  neg: Unary;
  exp: Unary;
  square: Unary;
  rsqrt: Unary;
  sigmoid: Unary;
  sin: Unary;
  cos: Unary;
  clone: Unary;
  cast(x: TfTensor, dtype: Dtype): TfTensor;

  matMul(a: TfTensor, b: TfTensor, transposeA: boolean, transposeB: boolean): TfTensor;
  reshape(x: TfTensor, shape: number[]): TfTensor;
  transpose(x: TfTensor, perm: number[]): TfTensor;
  broadcastTo(x: TfTensor, shape: number[]): TfTensor;
  slice(x: TfTensor, begin: number[], size: number[]): TfTensor;
  concat(parts: TfTensor[], axis: number): TfTensor;
  stack(parts: TfTensor[], axis: number): TfTensor;
  gather(x: TfTensor, indices: TfTensor): TfTensor;
  gatherND(x: TfTensor, indices: TfTensor): TfTensor;
  unsortedSegmentSum(x: TfTensor, segments: TfTensor, count: number): TfTensor;

  sum(x: TfTensor, axes: number[], keepDims: boolean): TfTensor;
  mean(x: TfTensor, axis: number, keepDims: boolean): TfTensor;
  softmax: Unary;
  logSoftmax: Unary;
}
