/** The same samples with the token tree and without it. */
import type { TreeBatch } from '../../src/engine/types.ts';
import {
  type Packed,
  type Pass,
  packSamples,
  type Sample,
  type TreeLimits,
} from '../../src/trainer/token-tree.ts';

/**
 * tree     as `lexpo train` packs, with its limits but for the size of a pass
 * padded   every sample a tree of its own, those of like length in one pass
 * alone    every sample a pass of its own
 */
export const PACKINGS = ['tree', 'padded', 'alone'] as const;
export type Packing = (typeof PACKINGS)[number];

export function pack(samples: readonly Sample[], packing: Packing, limits: TreeLimits): Packed {
  return packing === 'tree'
    ? packSamples(samples, limits)
    : apart(samples, packing === 'alone' ? 0 : limits.tokensPerPass);
}

/** Without sharing. Passes hold at most `tokensPerPass` padded positions, at least one sample. */
function apart(samples: readonly Sample[], tokensPerPass: number): Packed {
  const offsets = new Int32Array(samples.length + 1);
  const singles = samples.map((sample, s) => {
    offsets[s + 1] = offsets[s]! + sample.outputIds.length;
    const room = sample.promptIds.length + sample.outputIds.length;
    const packed = packSamples([sample], { maxTreeTokens: room, tokensPerPass: room });
    const pass = packed.passes[0]!;
    return { pass: { ...pass, token: pass.token.map((t) => t + offsets[s]!) }, tokens: packed.tokensAfter };
  });
  const order = singles.map(({ pass }) => pass).sort((a, b) => b.batch.length - a.batch.length);
  const passes: Pass[] = [];
  for (let start = 0; start < order.length; ) {
    const { length } = order[start]!.batch;
    const count = Math.max(1, Math.floor(tokensPerPass / length));
    passes.push(sideBySide(order.slice(start, start + count), length));
    start += count;
  }
  const tokens = singles.reduce((sum, single) => sum + single.tokens, 0);
  return { passes, offsets, tokensBefore: tokens, tokensAfter: tokens };
}

/** One pass of several with one tree each, padded to `length`. */
export function sideBySide(passes: readonly Pass[], length: number): Pass {
  const size = passes.length * length;
  const batch: TreeBatch = {
    trees: passes.length,
    length,
    ids: new Int32Array(size),
    positions: new Int32Array(size),
    subtreeEnd: Int32Array.from({ length: size }, (_, i) => (i % length) + 1),
    hiddenIndex: Int32Array.from(
      passes.flatMap((p, i) => [...p.batch.hiddenIndex].map((h) => h + i * length)),
    ),
    targetId: Int32Array.from(passes.flatMap((p) => [...p.batch.targetId])),
  };
  let rows = 0;
  const row: number[] = [];
  for (const [i, pass] of passes.entries()) {
    for (const name of ['ids', 'positions', 'subtreeEnd'] as const)
      batch[name].set(pass.batch[name], i * length);
    row.push(...pass.row.map((r) => r + rows));
    rows += pass.batch.targetId.length;
  }
  return { batch, token: Int32Array.from(passes.flatMap((p) => [...p.token])), row: Int32Array.from(row) };
}
