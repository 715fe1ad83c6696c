/**
 * The key/value cache of one decode batch: one array per plane (the keys of every layer, then the values),
 * `[rows, kvHeads, capacity, headDim]`, rows dense from 0. A finished row is filled by the last one, so
 * the rows in use are always a prefix that goes to the engine without a copy.
 *
 * Left out, against paged attention (Kwon et al. 2023, arXiv 2309.06180): blocks and sharing between rows.
 * Sequences here are short; when one outgrows the capacity, the whole batch is widened or the row moves to
 * a wider batch.
 */

export interface KvShape {
  layers: number;
  kvHeads: number;
  headDim: number;
}

/** The cache of one sequence alone: planes `[kvHeads, length, headDim]`. */
export interface KvRow {
  length: number;
  planes: Float32Array[];
}

export interface KvBatch {
  shape: KvShape;
  capacity: number;
  rows: number;
  planes: Float32Array[];
}

/** Capacities are multiples of this: then a row's results do not depend on the capacity, bit for bit. */
const CAPACITY_STEP = 64;

/** The least capacity that holds `tokens` cached tokens. */
export function capacityFor(tokens: number): number {
  return Math.max(1, Math.ceil(tokens / CAPACITY_STEP)) * CAPACITY_STEP;
}

/** Bytes of one row of the given capacity. */
export function rowBytes(shape: KvShape, capacity: number): number {
  return 2 * shape.layers * shape.kvHeads * shape.headDim * capacity * Float32Array.BYTES_PER_ELEMENT;
}

export function createBatch(shape: KvShape, capacity: number): KvBatch {
  const size = 4 * shape.kvHeads * capacity * shape.headDim;
  const planes = Array.from({ length: 2 * shape.layers }, () => new Float32Array(size));
  return { shape, capacity, rows: 0, planes };
}

function rowSize(batch: KvBatch): number {
  return batch.shape.kvHeads * batch.capacity * batch.shape.headDim;
}

/** Appends a row and returns its index. `row.length` must be at most the capacity. */
export function addRow(batch: KvBatch, row: KvRow): number {
  const { kvHeads, headDim } = batch.shape;
  const size = rowSize(batch);
  const index = batch.rows++;
  for (let p = 0; p < batch.planes.length; p++) {
    let plane = batch.planes[p]!;
    if (batch.rows * size > plane.length) {
      const larger = new Float32Array(Math.max(batch.rows * size, plane.length * 2));
      larger.set(plane.subarray(0, index * size));
      batch.planes[p] = larger;
      plane = larger;
    }
    const source = row.planes[p]!;
    const span = row.length * headDim;
    for (let h = 0; h < kvHeads; h++) {
      plane.set(source.subarray(h * span, (h + 1) * span), index * size + h * batch.capacity * headDim);
    }
  }
  return index;
}

/** Gives every row `capacity` columns, at least as many as now; in place where the arrays have the room. */
export function widen(batch: KvBatch, capacity: number): void {
  const { kvHeads, headDim } = batch.shape;
  const heads = batch.rows * kvHeads;
  const [from, to] = [batch.capacity * headDim, capacity * headDim];
  batch.planes = batch.planes.map((plane) => {
    const target = heads * to > plane.length ? new Float32Array(heads * to) : plane;
    // from the last head down: in place, none is overwritten before it has moved
    for (let h = heads - 1; h >= 0; h--) {
      if (target === plane) plane.copyWithin(h * to, h * from, (h + 1) * from);
      else target.set(plane.subarray(h * from, (h + 1) * from), h * to);
    }
    return target;
  });
  batch.capacity = capacity;
}

/** Takes row `index` out; the last row takes its place. */
export function removeRow(batch: KvBatch, index: number): void {
  const size = rowSize(batch);
  const last = --batch.rows;
  if (index === last) return;
  for (const plane of batch.planes) plane.copyWithin(index * size, last * size, (last + 1) * size);
}

/** A copy of the first `length` columns of row `index`. */
export function copyRow(batch: KvBatch, index: number, length: number): KvRow {
  return { length, planes: sliceRow(batch.planes, batch.shape, index, batch.capacity, length) };
}

/** Cuts row `index` of arrays `[n, kvHeads, columns, headDim]` down to its first `length` columns. */
export function sliceRow(
  planes: Float32Array[],
  shape: KvShape,
  index: number,
  columns: number,
  length: number,
): Float32Array[] {
  const { kvHeads, headDim } = shape;
  const span = length * headDim;
  return planes.map((plane) => {
    const out = new Float32Array(kvHeads * span);
    for (let h = 0; h < kvHeads; h++) {
      const from = (index * kvHeads + h) * columns * headDim;
      out.set(plane.subarray(from, from + span), h * span);
    }
    return out;
  });
}

/** Writes the new column `[rows, kvHeads, headDim]` of every plane at `positions[row]`. */
export function writeColumns(batch: KvBatch, columns: Float32Array[], positions: Int32Array): void {
  const { kvHeads, headDim } = batch.shape;
  for (let p = 0; p < batch.planes.length; p++) {
    const plane = batch.planes[p]!;
    const column = columns[p]!;
    let from = 0;
    for (let row = 0; row < batch.rows; row++) {
      for (let h = 0; h < kvHeads; h++) {
        let to = ((row * kvHeads + h) * batch.capacity + positions[row]!) * headDim;
        for (let d = 0; d < headDim; d++) plane[to++] = column[from++]!;
      }
    }
  }
}

/** The rows in use, as the engine takes them: keys and values per layer, views and not copies. */
export function views(batch: KvBatch): { keys: Float32Array[]; values: Float32Array[] } {
  const used = batch.planes.map((plane) => plane.subarray(0, batch.rows * rowSize(batch)));
  return { keys: used.slice(0, batch.shape.layers), values: used.slice(batch.shape.layers) };
}
