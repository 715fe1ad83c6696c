/** Reverse-mode differentiation: walks the graph once from the result back, with the table of `gradients.ts`. */

import { GRADIENTS } from './gradients.ts';
import { apply, isOp, type Node, plus, reachable, scalar } from './graph.ts';

/** a + b, where a fresh product takes the other addend as its own C input. */
export function accumulate(a: Node, b: Node): Node {
  if (isOp(b, 'gemm') && b.inputs.length === 2) return apply('gemm', [...b.inputs, a], b.attrs);
  if (isOp(a, 'gemm') && a.inputs.length === 2) return apply('gemm', [...a.inputs, b], a.attrs);
  return plus(a, b);
}

/**
 * The product of a Jacobian's transpose with `seed`: Σ seed ∘ d(result)/d(node) for each of `wrt`, as nodes of
 * the same graph. Undefined where `result` does not depend on the node. One of
 * `wrt` ends the walk: nothing below it gets a gradient through it. Throws when the way to a node leads
 * through an operation without a gradient.
 */
export function pullBack(result: Node, seed: Node, wrt: readonly Node[]): (Node | undefined)[] {
  const order = reachable([result]);
  const targets = new Set(wrt);
  const needed = new Set(wrt);
  for (const node of order) {
    if (GRADIENTS[node.op] && node.inputs.some((n) => needed.has(n))) needed.add(node);
  }
  const sums = new Map<Node, Node>([[result, seed]]);
  for (const node of order.reverse()) {
    const g = sums.get(node);
    const rule = GRADIENTS[node.op] as Rule | null;
    if (!g || !rule || !needed.has(node) || targets.has(node)) continue;
    rule(node, g, ...node.inputs).forEach((thunk, i) => {
      const target = node.inputs[i];
      if (!target || !needed.has(target)) return;
      if (!thunk) throw new Error(`${node.op} has no gradient for input ${i}`);
      const known = sums.get(target);
      const part = thunk();
      sums.set(target, known ? accumulate(known, part) : part);
    });
  }
  return wrt.map((node) => sums.get(node));
}
type Rule = (node: Node, g: Node, ...inputs: Node[]) => readonly ((() => Node) | undefined)[];

/** d(result)/d(wrt), one node for each of `wrt`. `result` is a scalar `[]` that depends on all of them. */
export function gradients(result: Node, wrt: readonly Node[]): Node[] {
  if (result.shape.length !== 0) throw new Error(`gradient of a tensor [${result.shape}]; needs a scalar`);
  return pullBack(result, scalar(result.graph, 1), wrt).map((g, i) => {
    if (!g) throw new Error(`the result does not depend on ${JSON.stringify(wrt[i]!.attrs)}`);
    return g;
  });
}
