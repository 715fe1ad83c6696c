/**
 * Recomputing must keep saving memory: an optimiser that merged the second computation of a layer with the
 * first, or moved it forward, would change no value and undo it.
 */
import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ALL_MODULES, chainBatch, randomAdapter, tinyModel } from './test-support.ts';
import type { MemoryPlan } from './training-graph.ts';
import { createTrainingSession } from './training-session.ts';

test('recomputing layers saves a good part of what a deep model’s step holds', async () => {
  const shape = { vocab: 64, hidden: 16, layers: 16, heads: 4, kvHeads: 2, headDim: 4, ffn: 16 };
  const folder = tinyModel(shape);
  const lora = { r: 2, alpha: 4, rslora: false, targets: ALL_MODULES };
  const params = randomAdapter(folder, lora).tensors;
  // probabilities alone: 4 heads × 512² × 4 bytes × 16 layers = 67 MB
  const batch = chainBatch([{ ids: Array.from({ length: 512 }, (_, i) => (i * 7) % 64) }]);
  const coef = new Float32Array(batch.targetId.length).fill(1);
  /** Growth of the process while the session lives: its arena keeps the peak of the run. */
  const held = async (memory: MemoryPlan): Promise<number> => {
    const before = process.memoryUsage().rss;
    const options = { folder, lora, mode: 'lora', gradients: true, threads: 1 } as const;
    const session = await createTrainingSession({ ...options, memory });
    await session.run(batch, params, 2, { coef });
    const after = process.memoryUsage().rss;
    await session.release();
    return after - before;
  };
  await held({ recompute: true, rowChunks: 1 }); // what the first session of a process loads
  const small = await held({ recompute: true, rowChunks: 1 });
  const fast = await held({ recompute: false, rowChunks: 1 });
  // About 70 and 35 MB; some MB come and go with the rest of the process. Undone, the two are equal.
  expect(fast).toBeGreaterThan(50e6);
  expect(small).toBeLessThan(0.7 * fast);
  rmSync(folder, { recursive: true });
});
