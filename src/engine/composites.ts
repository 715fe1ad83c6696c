/**
 * Operations that exist for the sake of their gradient (cheaper than what the parts would give) and that
 * executors see as their parts. `expandComposites` replaces them.
 */

import { dimProduct } from './dims.ts';
import {
  apply,
  concat,
  exp,
  gemm,
  logSoftmax,
  matmul,
  minus,
  type Node,
  neg,
  pick,
  plus,
  reachable,
  reduceSum,
  reshape,
  sigmoid,
  slice,
  softmax,
  times,
} from './graph.ts';
import type { OpName } from './ops.ts';

/** silu(x) = x · sigmoid(x). */
export const silu = (x: Node): Node => times(x, sigmoid(x));

/** `[b, h, t, d]` with the h / kv query heads of a key head folded into rows: `[b, kv, g · t, d]`. */
export function foldHeads(x: Node, kv: number): Node {
  const [b, h, t, d] = x.shape;
  return reshape(x, [b!, kv, dimProduct([(h as number) / kv, t!]), d!]);
}

/** Attention probabilities `[b, h, t, t]` of `attention`'s inputs. */
export function attentionProbabilities(q: Node, k: Node, mask: Node): Node {
  const [b, h, t] = q.shape;
  const scores = matmul(foldHeads(q, k.shape[1] as number), k, { transB: true });
  return softmax(plus(reshape(scores, [b!, h!, t!, t!]), mask));
}

/** Log-probabilities of all tokens `[r, v]`, of the targets `[r]`, and entropies `[r]`, in nats. */
export function rowValues(hidden: Node, weight: Node, target: Node) {
  const all = logSoftmax(gemm(hidden, weight, { transB: true }));
  const entropy = neg(reduceSum(times(exp(all), all), [1]));
  return { all, logprob: pick(all, target), entropy };
}

const EXPANSIONS: { readonly [K in OpName]?: (...inputs: Node[]) => Node } = {
  swiglu: (gate, up) => times(silu(gate!), up!),
  rope(x, cosine, sine) {
    const d = x!.shape[3] as number;
    const [b, t, half] = cosine!.shape;
    const [c, s] = [reshape(cosine!, [b!, 1, t!, half!]), reshape(sine!, [b!, 1, t!, half!])];
    const [x1, x2] = [slice(x!, 3, 0, d / 2), slice(x!, 3, d / 2, d)];
    return concat([minus(times(x1, c), times(x2, s)), plus(times(x2, c), times(x1, s))], 3);
  },
  attention(q, k, v, mask) {
    const probabilities = foldHeads(attentionProbabilities(q!, k!, mask!), k!.shape[1] as number);
    return reshape(matmul(probabilities, v!), q!.shape);
  },
  rowSurrogate(hidden, weight, target, coef, entropyCoef) {
    const { logprob, entropy } = rowValues(hidden!, weight!, target!);
    return reduceSum(plus(times(coef!, logprob), times(entropyCoef!, entropy)), [0]);
  },
};

/**
 * The same outputs with composites replaced by their parts, in the same graph. Operations in `native` stay:
 * the executor has kernels for them.
 */
export function expandComposites(outputs: readonly Node[], native: ReadonlySet<OpName> = new Set()): Node[] {
  const done = new Map<Node, Node>();
  const rewrite = (node: Node): Node => {
    const known = done.get(node);
    if (known) return known;
    const inputs = node.inputs.map(rewrite);
    const expansion = native.has(node.op) ? undefined : EXPANSIONS[node.op];
    const changed = inputs.some((n, i) => n !== node.inputs[i]);
    let result: Node = node;
    // a part may be a composite itself: rewrite the expansion's own nodes too
    if (expansion) result = rewrite(expansion(...inputs));
    else if (changed) result = apply(node.op, inputs, node.attrs);
    done.set(node, result);
    return result;
  };
  // in id order, so that recursion stays shallow
  for (const node of reachable(outputs)) rewrite(node);
  return outputs.map(rewrite);
}
