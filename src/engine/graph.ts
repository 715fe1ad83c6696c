/**
 * The graph language: nodes of typed operations over tensors with static rank and symbolic dimensions.
 *
 * Nodes are immutable and hash-consed: applying an operation twice to the same inputs with the same
 * attributes gives the same node. Gradients can therefore write down forward values again without any
 * bookkeeping, and the second writing costs nothing. Ids grow, so id order is a topological order.
 */
import type { Dim } from './dims.ts';
import { OPS, type OpAttrs, type OpName } from './ops.ts';

export type DType = 'f32' | 'i32' | 'bool';

export interface Node<K extends OpName = OpName> {
  readonly graph: Graph;
  readonly id: number;
  readonly op: K;
  readonly inputs: readonly Node[];
  readonly attrs: OpAttrs[K];
  readonly shape: readonly Dim[];
  readonly dtype: DType;
}

export interface Graph {
  readonly nodes: Node[];
  readonly interned: Map<string, Node>;
}

export function createGraph(): Graph {
  return { nodes: [], interned: new Map() };
}

function add<K extends OpName>(graph: Graph, op: K, inputs: readonly Node[], attrs: OpAttrs[K]): Node {
  for (const input of inputs) if (input.graph !== graph) throw new Error(`${op}: input of another graph`);
  const key = `${op}|${inputs.map((n) => n.id).join()}|${JSON.stringify(attrs)}`;
  const known = graph.interned.get(key);
  if (known) return known;
  const { shape, dtype } = OPS[op].infer(inputs, attrs);
  const node: Node<K> = { graph, id: graph.nodes.length, op, inputs, attrs, shape, dtype };
  graph.nodes.push(node as unknown as Node);
  graph.interned.set(key, node as unknown as Node);
  return node as unknown as Node;
}

/** A node of operation `op`; shape and type are inferred, a misfit throws. */
export function apply<K extends OpName>(op: K, inputs: readonly Node[], attrs: OpAttrs[K]): Node {
  const graph = inputs[0]?.graph;
  if (!graph) throw new Error(`${op}: no inputs; use the leaf constructors`);
  try {
    return add(graph, op, inputs, attrs);
  } catch (error) {
    throw new Error(
      `${op}(${inputs.map((n) => `${n.dtype}[${n.shape}]`).join(', ')}): ${(error as Error).message}`,
    );
  }
}

/** True for a node of the given operation (narrows its attributes). */
export function isOp<K extends OpName>(node: Node, op: K): node is Node<K> & Node {
  return node.op === op;
}

// Leaves

/** A tensor given at every run. */
export const input = (graph: Graph, name: string, dtype: DType, shape: readonly Dim[]): Node =>
  add(graph, 'input', [], { name, dtype, shape: [...shape] });
/** A frozen f32 tensor that the executor finds by name. */
export const weight = (graph: Graph, name: string, shape: readonly number[]): Node =>
  add(graph, 'weight', [], { name, shape: [...shape] });
/** A small tensor written into the graph. */
export const constant = (
  graph: Graph,
  dtype: 'f32' | 'i32',
  shape: readonly number[],
  data: number[],
): Node => add(graph, 'constant', [], { dtype, shape: [...shape], data });
export const scalar = (graph: Graph, value: number): Node => constant(graph, 'f32', [], [value]);
/** 0, 1, …, n − 1 as i32 `[n]`. */
export const iota = (graph: Graph, size: Dim): Node => add(graph, 'iota', [], { size });

// Elementwise, with broadcasting

export const plus = (a: Node, b: Node): Node => apply('add', [a, b], {});
export const minus = (a: Node, b: Node): Node => apply('sub', [a, b], {});
export const times = (a: Node, b: Node): Node => apply('mul', [a, b], {});
export const over = (a: Node, b: Node): Node => apply('div', [a, b], {});
export const less = (a: Node, b: Node): Node => apply('less', [a, b], {});
export const equal = (a: Node, b: Node): Node => apply('equal', [a, b], {});
export const and = (a: Node, b: Node): Node => apply('and', [a, b], {});
export const not = (a: Node): Node => apply('not', [a], {});
export const where = (condition: Node, a: Node, b: Node): Node => apply('where', [condition, a, b], {});
export const exp = (x: Node): Node => apply('exp', [x], {});
export const rsqrt = (x: Node): Node => apply('rsqrt', [x], {});
export const sigmoid = (x: Node): Node => apply('sigmoid', [x], {});
export const sin = (x: Node): Node => apply('sin', [x], {});
export const cos = (x: Node): Node => apply('cos', [x], {});
export const neg = (x: Node): Node => apply('neg', [x], {});
/** i32 or bool to f32. */
export const toFloat = (x: Node): Node => apply('toFloat', [x], {});

// Products

export interface GemmFlags {
  transA?: boolean;
  transB?: boolean;
}
/** op(a) · op(b) (+ c) over matrices; c broadcasts to the result. */
export const gemm = (a: Node, b: Node, flags: GemmFlags = {}, c?: Node): Node =>
  apply('gemm', c ? [a, b, c] : [a, b], { transA: flags.transA ?? false, transB: flags.transB ?? false });
/** Batched product over the last two dimensions; the leading ones are equal. */
export const matmul = (a: Node, b: Node, flags: GemmFlags = {}): Node =>
  apply('matmul', [a, b], { transA: flags.transA ?? false, transB: flags.transB ?? false });

// Shape

export const reshape = (x: Node, shape: readonly Dim[]): Node =>
  shape.length === x.shape.length && shape.every((d, i) => d === x.shape[i])
    ? x
    : apply('reshape', [x], { shape: [...shape] });
export const transpose = (x: Node, perm: readonly number[]): Node =>
  apply('transpose', [x], { perm: [...perm] });
export const broadcastTo = (x: Node, shape: readonly Dim[]): Node =>
  shape.length === x.shape.length && shape.every((d, i) => d === x.shape[i])
    ? x
    : apply('broadcastTo', [x], { shape: [...shape] });
/** Elements [start, end) of one dimension of known size. */
export const slice = (x: Node, axis: number, start: number, end: number): Node =>
  apply('slice', [x], { axis, start, end });
export const concat = (parts: readonly Node[], axis: number): Node => apply('concat', parts, { axis });
/**
 * x, but not before `others` are computed, and never merged with x: what is built on it is computed again.
 * All f32 matrices.
 */
export const after = (x: Node, others: readonly Node[]): Node => apply('after', [x, ...others], {});

// Rows

/** Rows of a matrix: x `[n, c]`, index i32 `[r]` → `[r, c]`. */
export const gather = (x: Node, index: Node): Node => apply('gather', [x, index], {});
/** Sum of rows by target: updates `[r, c]`, index i32 `[r]` → `[size, c]`; repeated targets add up. */
export const scatterAdd = (updates: Node, index: Node, size: Dim): Node =>
  apply('scatterAdd', [updates, index], { size });
/** One element of each row: x `[r, c]`, index i32 `[r]` → `[r]`. */
export const pick = (x: Node, index: Node): Node => apply('pick', [x, index], {});

// Reductions and fused forms

export const reduceSum = (x: Node, axes: readonly number[], keep = false): Node =>
  axes.length === 0 ? x : apply('reduceSum', [x], { axes: [...axes], keep });
/** Mean over the last dimension, kept as size 1. */
export const meanLast = (x: Node): Node => apply('meanLast', [x], {});
export const softmax = (x: Node): Node => apply('softmax', [x], {});
export const logSoftmax = (x: Node): Node => apply('logSoftmax', [x], {});
/** x / √(mean(x²) + eps) · w over the last dimension. */
export const rmsNorm = (x: Node, w: Node, eps: number): Node => apply('rmsNorm', [x, w], { eps });
/** Rotary embedding, halves convention: x `[b, h, t, d]`, cos and sin `[b, t, d / 2]`. */
export const rope = (x: Node, cosine: Node, sine: Node): Node => apply('rope', [x, cosine, sine], {});
/** silu(gate) · up. */
export const swiglu = (gate: Node, up: Node): Node => apply('swiglu', [gate, up], {});
/** See `ops.ts`. */
export const attention = (q: Node, k: Node, v: Node, mask: Node): Node =>
  apply('attention', [q, k, v, mask], {});
export const cachedAttention = (parts: {
  q: Node;
  k: Node;
  v: Node;
  mask: Node;
  pastK: Node;
  pastV: Node;
  pastMask: Node;
}): Node =>
  apply(
    'cachedAttention',
    [parts.q, parts.k, parts.v, parts.mask, parts.pastK, parts.pastV, parts.pastMask],
    {},
  );
export const rowSurrogate = (parts: {
  hidden: Node;
  weight: Node;
  target: Node;
  coef: Node;
  entropyCoef: Node;
}): Node =>
  apply('rowSurrogate', [parts.hidden, parts.weight, parts.target, parts.coef, parts.entropyCoef], {});

/** Every node the outputs depend on, in topological order; not what lies below `barrier`. */
export function reachable(outputs: readonly Node[], barrier?: Node): Node[] {
  const seen = new Set<Node>();
  const stack = [...outputs];
  while (stack.length > 0) {
    const node = stack.pop()!;
    if (seen.has(node)) continue;
    seen.add(node);
    if (node !== barrier) stack.push(...node.inputs);
  }
  return [...seen].sort((a, b) => a.id - b.id);
}
