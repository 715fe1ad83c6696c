/**
 * The key/value cache of one decode batch: one array per plane (the keys of every layer, then the values),
 * `[rows, kvHeads, capacity, headDim]`, rows dense from 0. A finished row is filled by the last one, so
 * the rows in use are always a prefix that goes to the engine without a copy.
 *
 * Left out, against paged attention (Kwon et al. 2023, arXiv 2309.06180): blocks and sharing between rows.
 * Sequences here are short; a row that outgrows its capacity moves to a batch of twice the capacity.
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

/** The least capacity; also the step below which attention over padding costs nothing worth saving. */
const MIN_CAPACITY = 64;

/**
 * Capacity for `tokens` cached tokens: the least power of two that holds them, at least 64. It depends on
 * the sequence alone, so what else runs never changes the shape a sequence is computed in.
 */
export function capacityFor(tokens: number): number {
  let capacity = MIN_CAPACITY;
  while (capacity < tokens) capacity *= 2;
  return capacity;
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
      const larger = new Float32Array(plane.length * 2);
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
