import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import type { AdapterSlot } from './adapter-slots.ts';
import { createBatches } from './batches.ts';
import { capacityFor, copyRow, type KvRow, writeColumns } from './kv-cache.ts';
import type { Sequence } from './sequence.ts';

const shape = { layers: 1, kvHeads: 2, headDim: 2 };
/** Enough for 4096 idle columns: 32 bytes each, an eighth of it. */
const CACHE = 8 * 32 * 4096;
const adapters = [{ uid: 0 }, { uid: 1 }] as AdapterSlot[];

const sequence = (length: number, adapter = adapters[0]!): Sequence => ({ length, adapter }) as Sequence;
function rowOf(length: number, mark: number): KvRow {
  const planes = [0, 1].map((p) =>
    Float32Array.from({ length: 4 * length }, (_, i) => mark + p / 2 + i / 1e4),
  );
  return { length, planes };
}
const sameBytes = (a: Float32Array, b: Float32Array): boolean =>
  a.length === b.length && a.every((value, i) => value === b[i]);
/** Rows and capacity of every batch. */
const sizes = (batches: ReturnType<typeof createBatches>): number[][] =>
  batches.list().map(({ kv, sequences }) => [sequences.length, kv.capacity]);

describe('rows', () => {
  it('of like length share a batch, as wide as the longest needs', () => {
    const batches = createBatches(shape, CACHE);
    for (const length of [10, 100, 63, 64, 300]) batches.place(sequence(length), rowOf(length, 0));
    expect(sizes(batches)).toEqual([[5, 320]]);
  });

  it('that would leave too much idle, or have another adapter, do not', () => {
    const batches = createBatches(shape, CACHE);
    for (let i = 0; i < 5; i++) batches.place(sequence(10), rowOf(10, 0));
    batches.place(sequence(1000), rowOf(1000, 0));
    batches.place(sequence(10, adapters[1]), rowOf(10, 0));
    batches.place(sequence(900), rowOf(900, 0));
    expect(sizes(batches)).toEqual([
      [5, 64],
      [2, 1024],
      [1, 64],
    ]);
  });

  it('widen their batch when few others idle by it, or leave it', () => {
    const batches = createBatches(shape, CACHE);
    for (let i = 0; i < 65; i++) batches.place(sequence(20), rowOf(20, i));
    const last = sequence(64);
    batches.list()[0]!.sequences[64] = last;
    batches.extend(batches.list()[0]!, 64);
    expect(sizes(batches)).toEqual([[65, 128]]);

    const more = createBatches(shape, CACHE);
    for (let i = 0; i < 66; i++) more.place(sequence(20), rowOf(20, i));
    more.list()[0]!.sequences[65] = sequence(64);
    more.extend(more.list()[0]!, 65);
    expect(sizes(more)).toEqual([
      [65, 64],
      [1, 128],
    ]);
  });

  it('take the memory of a batch that ended, at a capacity of their own', () => {
    const batches = createBatches(shape, CACHE);
    batches.place(sequence(700), rowOf(700, 1));
    const { planes } = batches.list()[0]!.kv;
    batches.remove(batches.list()[0]!, 0);
    batches.sweep();
    expect(batches.list()).toEqual([]);
    batches.place(sequence(5), rowOf(5, 2));
    expect(sizes(batches)).toEqual([[1, 64]]);
    expect(batches.list()[0]!.kv.planes[0]!.buffer).toBe(planes[0]!.buffer);
  });
});

it('random traffic keeps every row, and idles no more than it may', () => {
  const random = stream(3, 'batches-test');
  const batches = createBatches(shape, CACHE / 16);
  const rows = new Map<Sequence, KvRow>();
  for (let round = 0; round < 400; round++) {
    const what = random.next();
    if (what < 0.1 && rows.size < 40) {
      const length = 1 + random.int(150);
      const one = sequence(length, adapters[random.int(2)]);
      rows.set(one, rowOf(length, round));
      batches.place(one, rows.get(one)!);
    } else if (what < 0.17) {
      const list = batches.list();
      const batch = list[random.int(Math.max(1, list.length))];
      if (!batch) continue;
      const index = random.int(batch.sequences.length);
      rows.delete(batch.sequences[index]!);
      batches.remove(batch, index);
    } else {
      for (const batch of batches.list()) {
        const columns = [0, 1].map(() =>
          Float32Array.from({ length: 4 * batch.kv.rows }, () => random.next()),
        );
        writeColumns(
          batch.kv,
          columns,
          Int32Array.from(batch.sequences, ({ length }) => length),
        );
        for (let r = batch.sequences.length - 1; r >= 0; r--) {
          const one = batch.sequences[r]!;
          const { planes } = rows.get(one)!;
          const grown = planes.map((plane, p) => {
            const [half, column] = [plane.length / 2, columns[p]!.subarray(4 * r, 4 * r + 4)];
            return Float32Array.from([
              ...plane.subarray(0, half),
              ...column.subarray(0, 2),
              ...plane.subarray(half),
              ...column.subarray(2),
            ]);
          });
          one.length++;
          rows.set(one, { length: one.length, planes: grown });
          if (one.length > 250) {
            rows.delete(one);
            batches.remove(batch, r);
          } else if (one.length === batch.kv.capacity) batches.extend(batch, r);
        }
      }
    }
    batches.sweep();
    let seen = 0;
    let moved = 0;
    for (const { kv, sequences } of batches.list()) {
      expect(kv.rows).toBe(sequences.length);
      const idle = sequences.reduce((sum, { length }) => sum + kv.capacity - capacityFor(length + 1), 0);
      expect(idle).toBeLessThanOrEqual(256);
      sequences.forEach((one, r) => {
        seen++;
        expect(one.length).toBeLessThan(kv.capacity);
        const { planes } = copyRow(kv, r, one.length);
        if (!planes.every((plane, p) => sameBytes(plane, rows.get(one)!.planes[p]!))) moved++;
      });
    }
    expect([seen, moved]).toEqual([rows.size, 0]);
  }
});
