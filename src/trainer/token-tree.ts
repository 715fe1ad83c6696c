/**
 * Token trees: train each distinct token once.
 *
 * The rollouts of a query share their prompt and the roles share their system prompts, so most tokens of
 * a step are repeats. Sorted by token ids, the samples are the depth-first order of their common trie: a
 * sample adds only what lies beyond its longest common prefix with the one before. The walk is cut into
 * trees under a token budget, where a cut costs least: it repeats the shared prefix in the next tree. Trees of
 * like size are batched into passes, so that little is padding. A position attends to its ancestors only and
 * its rotary position is its depth, so gradients equal those of training every sample alone.
 *
 * The last token of a sample predicts nothing and gets no position. Sampled tokens that have the same
 * prefix and the same target share one row; their coefficients add up.
 */
import { UserError } from '../base/errors.ts';
import type { TreeBatch } from '../engine/types.ts';
import { cheapestParts } from './cheapest-parts.ts';

/** Prompt and sampled ids of one agent call. Only `outputIds` carry loss. */
export interface Sample {
  promptIds: number[];
  outputIds: number[];
}

/**
 * One forward-backward pass. Sampled tokens are numbered over all samples in their given order
 * (`offsets` below); `token[i]` of them is predicted by row `row[i]` of `batch`.
 */
export interface Pass {
  batch: TreeBatch;
  token: Int32Array;
  row: Int32Array;
}

export interface Packed {
  passes: Pass[];
  /** First sampled-token number of each sample, `[samples + 1]`. */
  offsets: Int32Array;
  /** Input positions one sample at a time, and after sharing, without padding. */
  tokensBefore: number;
  tokensAfter: number;
}

export interface TreeLimits {
  /** Positions of one tree, at most. */
  maxTreeTokens: number;
  /** Padded positions of one pass, at most. */
  tokensPerPass: number;
}

interface Tree {
  ids: number[];
  positions: number[];
  subtreeEnd: number[];
  rows: Map<string, number>;
  hiddenPosition: number[];
  targetId: number[];
  /** Pairs (sampled-token number, row within the tree). */
  tokens: [number, number][];
}

/** Lengths of passes are multiples of this. */
const PAD_TO = 8;
/** What one more pass costs, in padded positions (measured on the embedded learner). */
const PASS_COST = 128;

const emptyTree = (): Tree => ({
  ids: [],
  positions: [],
  subtreeEnd: [],
  rows: new Map(),
  hiddenPosition: [],
  targetId: [],
  tokens: [],
});

function commonPrefix(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const n = Math.min(a.length, b.length);
  let i = 0;
  while (i < n && a[i] === b[i]) i++;
  return i;
}

function compareIds(a: readonly number[], b: readonly number[]): number {
  const i = commonPrefix(a, b);
  return (a[i] ?? -1) - (b[i] ?? -1);
}

/**
 * Packs samples into passes of token trees. The result depends on the set of samples and their order
 * only, never on timing. Samples without output contribute nothing.
 *
 * @throws UserError for a sample longer than `maxTreeTokens`, or with an empty prompt.
 */
export function packSamples(samples: readonly Sample[], limits: TreeLimits): Packed {
  const offsets = new Int32Array(samples.length + 1);
  let tokensBefore = 0;
  const inputs: number[][] = [];
  for (const [s, sample] of samples.entries()) {
    offsets[s + 1] = offsets[s]! + sample.outputIds.length;
    const input = [...sample.promptIds, ...sample.outputIds.slice(0, -1)];
    inputs.push(input);
    if (sample.outputIds.length === 0) continue;
    tokensBefore += input.length;
    if (sample.promptIds.length === 0) throw new UserError('a sample has an empty prompt', `sample ${s}`);
    if (input.length > limits.maxTreeTokens)
      throw new UserError(
        `a sample has ${input.length} tokens`,
        `sample ${s}`,
        `raise learner.maxTreeTokens (${limits.maxTreeTokens}) or lower rollout.maxTokens`,
      );
  }
  const order = samples.map((_, s) => s).filter((s) => samples[s]!.outputIds.length > 0);
  order.sort((x, y) => compareIds(inputs[x]!, inputs[y]!) || x - y);

  const trees = cutWalk(
    order.map((s) => inputs[s]!),
    limits.maxTreeTokens,
  ).map(([start, end]) => growTree(order.slice(start, end), samples, inputs, offsets));
  const tokensAfter = trees.reduce((sum, t) => sum + t.ids.length, 0);
  return { passes: batchTrees(trees, limits.tokensPerPass), offsets, tokensBefore, tokensAfter };
}

/** Parts of the walk, each within the budget, with the fewest positions in all. */
function cutWalk(walk: readonly number[][], maxTreeTokens: number): [start: number, end: number][] {
  // before[k]: positions of the first k samples, each without what it shares with the one before it.
  const before = [0];
  for (const [k, input] of walk.entries())
    before.push(before[k]! + input.length - (k === 0 ? 0 : commonPrefix(walk[k - 1]!, input)));
  return cheapestParts(walk.length, (start, end) => {
    const size = walk[start]!.length + before[end]! - before[start + 1]!;
    return size > maxTreeTokens ? Infinity : size;
  });
}

/** The tree of some samples, given in the order of the walk. */
function growTree(
  part: readonly number[],
  samples: readonly Sample[],
  inputs: readonly number[][],
  offsets: Int32Array,
): Tree {
  const tree = emptyTree();
  // Path from the root to the last inserted leaf: path[d] is the tree position at depth d.
  const path: number[] = [];
  let pathIds: number[] = [];
  for (const s of part) {
    const input = inputs[s]!;
    const shared = commonPrefix(pathIds, input);
    path.length = shared;
    for (let depth = shared; depth < input.length; depth++) {
      path.push(tree.ids.length);
      tree.ids.push(input[depth]!);
      tree.positions.push(depth);
      tree.subtreeEnd.push(0);
    }
    // Depth-first order: all that lies on the current path reaches at least to the end written so far.
    for (const position of path) tree.subtreeEnd[position] = tree.ids.length;
    pathIds = input;
    const { promptIds, outputIds } = samples[s]!;
    for (const [t, target] of outputIds.entries()) {
      const hidden = path[promptIds.length - 1 + t]!;
      const key = `${hidden}:${target}`;
      let row = tree.rows.get(key);
      if (row === undefined) {
        row = tree.targetId.length;
        tree.rows.set(key, row);
        tree.hiddenPosition.push(hidden);
        tree.targetId.push(target);
      }
      tree.tokens.push([offsets[s]! + t, row]);
    }
  }
  return tree;
}

const padded = (length: number): number => Math.ceil(length / PAD_TO) * PAD_TO;

/** Trees of like size together, the longest first; cut where passes and their padding cost least. */
function batchTrees(trees: readonly Tree[], tokensPerPass: number): Pass[] {
  const bySize = [...trees].sort((a, b) => b.ids.length - a.ids.length);
  const lengths = bySize.map((tree) => padded(tree.ids.length));
  const parts = cheapestParts(bySize.length, (start, end) => {
    const size = (end - start) * lengths[start]!;
    return size > tokensPerPass && end - start > 1 ? Infinity : PASS_COST + size;
  });
  return parts.map(([start, end]) => layOut(bySize.slice(start, end), lengths[start]!));
}

function layOut(trees: readonly Tree[], length: number): Pass {
  const size = trees.length * length;
  const rows = trees.reduce((sum, tree) => sum + tree.targetId.length, 0);
  const tokens = trees.reduce((sum, tree) => sum + tree.tokens.length, 0);
  const batch: TreeBatch = {
    trees: trees.length,
    length,
    ids: new Int32Array(size),
    positions: new Int32Array(size),
    subtreeEnd: new Int32Array(size),
    hiddenIndex: new Int32Array(rows),
    targetId: new Int32Array(rows),
  };
  const token = new Int32Array(tokens);
  const row = new Int32Array(tokens);
  let firstRow = 0;
  let firstToken = 0;
  for (const [t, tree] of trees.entries()) {
    const base = t * length;
    batch.ids.set(tree.ids, base);
    batch.positions.set(tree.positions, base);
    batch.subtreeEnd.set(tree.subtreeEnd, base);
    for (let i = tree.ids.length; i < length; i++) batch.subtreeEnd[base + i] = i + 1;
    for (const [i, hidden] of tree.hiddenPosition.entries()) {
      batch.hiddenIndex[firstRow + i] = base + hidden;
      batch.targetId[firstRow + i] = tree.targetId[i]!;
    }
    for (const [i, [number, treeRow]] of tree.tokens.entries()) {
      token[firstToken + i] = number;
      row[firstToken + i] = firstRow + treeRow;
    }
    firstRow += tree.targetId.length;
    firstToken += tree.tokens.length;
  }
  return { batch, token, row };
}

/** Per-row values of a pass, written to the sampled tokens they belong to. */
export function rowsToTokens(pass: Pass, rowValues: Float32Array, tokenValues: Float32Array): void {
  for (let i = 0; i < pass.token.length; i++) tokenValues[pass.token[i]!] = rowValues[pass.row[i]!]!;
}

/** Per-token coefficients of a pass, added up on the rows that predict them. `[rows]`. */
export function tokensToRows(pass: Pass, tokenValues: Float32Array): Float32Array {
  const out = new Float32Array(pass.batch.targetId.length);
  for (let i = 0; i < pass.token.length; i++) out[pass.row[i]!]! += tokenValues[pass.token[i]!]!;
  return out;
}
