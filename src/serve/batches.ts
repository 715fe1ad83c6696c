/**
 * Which rows are stepped together. A step over more rows costs less for each, but every row pays for the
 * capacity of the widest: sequences of one adapter share a batch as long as few columns lie idle for it.
 */
import type { AdapterSlot } from './adapter-slots.ts';
import {
  addRow,
  capacityFor,
  copyRow,
  createBatch,
  type KvBatch,
  type KvRow,
  type KvShape,
  removeRow,
  rowBytes,
  widen,
} from './kv-cache.ts';
import type { Sequence } from './sequence.ts';

export interface Batch {
  adapter: AdapterSlot;
  kv: KvBatch;
  /** Row r of the cache belongs to sequences[r]. */
  sequences: Sequence[];
}

export interface Batches {
  /** The batches as they are now; the array is the caller's own. */
  list(): Batch[];
  /** Gives the sequence, of `row.length` cached tokens, a row with room for one more. */
  place(sequence: Sequence, row: KvRow): void;
  /** Takes row `index` out of its batch; the last one takes its place. */
  remove(batch: Batch, index: number): void;
  /** Makes room for the next token of row `index`, whose columns are all in use. */
  extend(batch: Batch, index: number): void;
  /** Forgets batches without sequences. */
  sweep(): void;
}

/**
 * Unused columns that a batch may hold rather than be two: attending to so many takes about as long as the
 * fixed costs of another step (measured on models of 1 to 30 M weights).
 */
const IDLE_COLUMNS = 4096;

/** `cacheBytes`: what the sequences may take; idle columns take at most an eighth of it in each batch. */
export function createBatches(shape: KvShape, cacheBytes: number): Batches {
  const idleColumns = Math.min(IDLE_COLUMNS, cacheBytes / 8 / rowBytes(shape, 1));
  let batches: Batch[] = [];
  /** An idle cache for the next batch: its memory is grown and warm. */
  let spare: KvBatch | null = null;

  const needed = (sequence: Sequence): number => capacityFor(sequence.length + 1);

  /** Columns that lie idle for the sequences of the batch when it has this capacity. */
  const idle = ({ sequences }: Batch, capacity: number): number =>
    sequences.reduce((sum, sequence) => sum + capacity - needed(sequence), 0);

  /** The batch that a row of this capacity joins: the one in which least lies idle, or a new one. */
  function batchFor(adapter: AdapterSlot, capacity: number): Batch {
    let best: Batch | null = null;
    let least = idleColumns;
    for (const batch of batches) {
      if (batch.adapter !== adapter) continue;
      const both = Math.max(batch.kv.capacity, capacity);
      const columns = idle(batch, both) + both - capacity;
      if (columns > least) continue;
      [best, least] = [batch, columns];
    }
    if (best) {
      if (best.kv.capacity < capacity) widen(best.kv, capacity);
      return best;
    }
    const kv = spare ?? createBatch(shape, capacity);
    spare = null;
    kv.capacity = capacity;
    const batch = { adapter, kv, sequences: [] };
    batches.push(batch);
    return batch;
  }

  function place(sequence: Sequence, row: KvRow): void {
    const batch = batchFor(sequence.adapter, needed(sequence));
    addRow(batch.kv, row);
    batch.sequences.push(sequence);
  }

  function remove(batch: Batch, index: number): void {
    removeRow(batch.kv, index);
    const last = batch.sequences.pop()!;
    if (index < batch.sequences.length) batch.sequences[index] = last;
  }

  return {
    list: () => [...batches],
    place,
    remove,
    extend(batch, index) {
      const sequence = batch.sequences[index]!;
      const capacity = needed(sequence);
      if (idle(batch, capacity) <= idleColumns) {
        widen(batch.kv, capacity);
        return;
      }
      const row = copyRow(batch.kv, index, sequence.length);
      remove(batch, index);
      place(sequence, row);
    },
    sweep() {
      for (const { kv, sequences } of batches) if (sequences.length === 0) spare = kv;
      batches = batches.filter(({ sequences }) => sequences.length > 0);
    },
  };
}
