import { expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { splitTrees } from './split-trees.ts';
import type { TreeBatch } from './types.ts';

/** A batch of random contents with rows in random order. */
function randomBatch(seed: number): TreeBatch {
  const random = stream(seed, 'batch');
  const [trees, length] = [1 + random.int(7), 1 + random.int(5)];
  const numbers = (n: number, below: number) => Int32Array.from({ length: n }, () => random.int(below));
  const rows = 1 + random.int(12);
  return {
    trees,
    length,
    ids: numbers(trees * length, 100),
    positions: numbers(trees * length, length),
    subtreeEnd: numbers(trees * length, length),
    hiddenIndex: numbers(rows, trees * length),
    targetId: numbers(rows, 100),
  };
}

test('every tree and every row is in one part, within the limit, and sees what it saw', () => {
  for (let seed = 0; seed < 60; seed++) {
    const batch = randomBatch(seed);
    const limit = 1 + (seed % 17);
    const seen: number[] = [];
    for (const { batch: part, rows } of splitTrees(batch, limit)) {
      expect(part.length).toBe(batch.length);
      // A pass needs a row.
      expect(rows.length).toBeGreaterThan(0);
      expect(part.trees === 1 || part.trees * part.length <= limit).toBe(true);
      for (const values of [part.ids, part.positions, part.subtreeEnd])
        expect(values).toHaveLength(part.trees * part.length);
      rows.forEach((row, i) => {
        seen.push(row);
        const treeOf = (b: TreeBatch, r: number) => {
          const at = b.hiddenIndex[r]!;
          const start = at - (at % b.length);
          const tree = (values: Int32Array) => [...values.subarray(start, start + b.length)];
          return [at - start, b.targetId[r], tree(b.ids), tree(b.positions), tree(b.subtreeEnd)];
        };
        expect(treeOf(part, i)).toEqual(treeOf(batch, row));
      });
    }
    expect(seen.sort((a, b) => a - b)).toEqual([...batch.targetId.keys()]);
  }
});
