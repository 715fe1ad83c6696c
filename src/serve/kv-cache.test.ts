import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import {
  addRow,
  capacityFor,
  copyRow,
  createBatch,
  type KvRow,
  removeRow,
  rowBytes,
  sliceRow,
  views,
  widen,
  writeColumns,
} from './kv-cache.ts';

const shape = { layers: 2, kvHeads: 3, headDim: 2 };
const random = stream(7, 'kv-cache');

function randomRow(length: number): KvRow {
  const planes = Array.from({ length: 4 }, () =>
    Float32Array.from({ length: 3 * length * 2 }, () => random.next()),
  );
  return { length, planes };
}

function samePlanes(a: KvRow, b: KvRow): boolean {
  return a.planes.every(
    (plane, p) => Buffer.compare(Buffer.from(plane.buffer), Buffer.from(b.planes[p]!.buffer)) === 0,
  );
}

describe('capacityFor', () => {
  it('is the least multiple of 64 that holds the tokens', () => {
    expect([0, 1, 64, 65, 128, 129, 1000].map(capacityFor)).toEqual([64, 64, 64, 128, 128, 192, 1024]);
  });
});

describe('a batch of rows', () => {
  it('counts bytes as the arrays have them', () => {
    const batch = createBatch(shape, 64);
    addRow(batch, randomRow(3));
    const { keys, values } = views(batch);
    const bytes = [...keys, ...values].reduce((sum, plane) => sum + plane.byteLength, 0);
    expect(bytes).toBe(rowBytes(shape, 64));
    expect(keys.length).toBe(2);
  });

  it('keeps every row through random additions, removals, columns and capacities', () => {
    const batch = createBatch(shape, 64);
    let model: KvRow[] = [];
    for (let round = 0; round < 200; round++) {
      const what = model.length === 0 ? 'add' : ['add', 'remove', 'write', 'widen'][random.int(4)];
      if (what === 'add') {
        const row = randomRow(1 + random.int(20));
        expect(addRow(batch, row)).toBe(model.length);
        model.push(row);
      } else if (what === 'remove') {
        const index = random.int(model.length);
        removeRow(batch, index);
        const last = model.pop()!;
        if (index < model.length) model[index] = last;
      } else if (what === 'widen') {
        // Now and then back, as a batch starts over: into arrays larger than it needs.
        if (model.length === 1 && random.next() < 0.5) {
          removeRow(batch, 0);
          batch.capacity = 64;
          addRow(batch, model[0]!);
        } else if (batch.capacity < 400) widen(batch, batch.capacity + 64 * random.int(3));
      } else {
        const columns = Array.from({ length: 4 }, () =>
          Float32Array.from({ length: model.length * 6 }, () => random.next()),
        );
        writeColumns(
          batch,
          columns,
          Int32Array.from(model, (row) => row.length),
        );
        model = model.map((row, r) => ({
          length: row.length + 1,
          planes: row.planes.map((plane, p) => {
            const out: number[] = [];
            for (let h = 0; h < 3; h++) {
              out.push(...plane.subarray(h * row.length * 2, (h + 1) * row.length * 2));
              out.push(...columns[p]!.subarray((r * 3 + h) * 2, (r * 3 + h + 1) * 2));
            }
            return Float32Array.from(out);
          }),
        }));
      }
      expect(batch.rows).toBe(model.length);
      const wrong = model.findIndex((row, r) => !samePlanes(copyRow(batch, r, row.length), row));
      expect(wrong).toBe(-1);
    }
  });

  it('cuts a row out of padded arrays', () => {
    // [n = 2, kvHeads = 3, columns = 4, headDim = 2], numbered; row 1, first 3 columns.
    const plane = Float32Array.from({ length: 48 }, (_, i) => i);
    const [cut] = sliceRow([plane], shape, 1, 4, 3);
    expect([...cut!]).toEqual([24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 36, 37, 40, 41, 42, 43, 44, 45]);
  });
});
