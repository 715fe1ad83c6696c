/** Cutting a batch of trees into smaller ones, and putting their rows together again. */
import type { TreeBatch } from './types.ts';

/** A part of a batch; `rows[i]` is the number that its row i has in the whole. */
export interface BatchPart {
  batch: TreeBatch;
  rows: Int32Array;
}

/**
 * Parts of whole trees in their order, of at most `positions` (padding included) but at least one tree each.
 * A part without rows is left out: nothing depends on it.
 */
export function splitTrees(batch: TreeBatch, positions: number): BatchPart[] {
  const { trees, length } = batch;
  const perPart = Math.max(1, Math.floor(positions / length));
  const rowsOf: number[][] = Array.from({ length: Math.ceil(trees / perPart) }, () => []);
  for (const [row, at] of batch.hiddenIndex.entries()) rowsOf[Math.floor(at / length / perPart)]!.push(row);
  return rowsOf.flatMap((numbers, part) => {
    if (numbers.length === 0) return [];
    const start = part * perPart * length;
    const end = Math.min(trees * length, start + perPart * length);
    const rows = Int32Array.from(numbers);
    return {
      rows,
      batch: {
        trees: (end - start) / length,
        length,
        ids: batch.ids.slice(start, end),
        positions: batch.positions.slice(start, end),
        subtreeEnd: batch.subtreeEnd.slice(start, end),
        hiddenIndex: rows.map((row) => batch.hiddenIndex[row]! - start),
        targetId: rows.map((row) => batch.targetId[row]!),
      },
    };
  });
}
