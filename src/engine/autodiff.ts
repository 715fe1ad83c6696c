/** Reverse-mode differentiation: walks the graph once from the result back, with the table of `gradients.ts`. */

import { GRADIENTS, one } from './gradients.ts';
import { apply, isOp, type Node, plus, reachable } from './graph.ts';
import type { OpName } from './ops.ts';

/** a + b, where a fresh product takes the other addend as its own C input. */
function accumulate(a: Node, b: Node): Node {
  if (isOp(b, 'gemm') && b.inputs.length === 2) return apply('gemm', [...b.inputs, a], b.attrs);
  if (isOp(a, 'gemm') && a.inputs.length === 2) return apply('gemm', [...a.inputs, b], a.attrs);
  return plus(a, b);
}

/**
 * d(result)/d(wrt), one node for each of `wrt`, in the same graph. `result` is a scalar `[]`. Throws when
 * `result` does not depend on one of `wrt`, or only through an operation without a gradient.
 */
export function gradients(result: Node, wrt: readonly Node[]): Node[] {
  if (result.shape.length !== 0) throw new Error(`gradient of a tensor [${result.shape}]; needs a scalar`);
  const order = reachable([result]);
  const needed = new Set<Node>(wrt);
  for (const node of order) {
    if (GRADIENTS[node.op] && node.inputs.some((n) => needed.has(n))) needed.add(node);
  }
  const sums = new Map<Node, Node>([[result, one(result)]]);
  for (const node of order.reverse()) {
    const g = sums.get(node);
    const rule = GRADIENTS[node.op] as
      | ((node: Node<OpName>, g: Node, ...inputs: Node[]) => (() => Node)[])
      | null;
    if (!g || !rule || !needed.has(node)) continue;
    rule(node, g, ...node.inputs).forEach((thunk, i) => {
      const target = node.inputs[i];
      if (!target || !needed.has(target)) return;
      if (!thunk) throw new Error(`${node.op} has no gradient for input ${i}`);
      const known = sums.get(target);
      const part = thunk();
      sums.set(target, known ? accumulate(known, part) : part);
    });
  }
  return wrt.map((node) => {
    const g = sums.get(node);
    if (!g) throw new Error(`the result does not depend on ${JSON.stringify(node.attrs)}`);
    return g;
  });
}
