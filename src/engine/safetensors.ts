/**
 * The safetensors file format (github.com/huggingface/safetensors): a little-endian u64 with the header's
 * length, a JSON header that names every tensor's dtype, shape and byte range, then the data.
 */
import { closeSync, existsSync, fstatSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { writeFileAtomicSync } from '../base/atomic-write.ts';
import { messageOf, UserError } from '../base/errors.ts';
import { DAMAGED, openFile, readFully } from './file-bytes.ts';
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from './half.ts';
import type { Tensor, TensorMap } from './types.ts';

export type SafetensorsDtype = 'F32' | 'F16' | 'BF16';

/** Where a tensor's bytes lie: `offset` counts from the start of `file`, `bytes` is their number. */
export interface SafetensorsEntry {
  name: string;
  dtype: SafetensorsDtype;
  shape: number[];
  file: string;
  offset: number;
  bytes: number;
}

const WIDTH: Record<SafetensorsDtype, number> = { F32: 4, F16: 2, BF16: 2 };
/** The reference implementation's own limit on a header. */
const MAX_HEADER = 100_000_000;

const size = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const rowSchema = z.strictObject({
  dtype: z.string(),
  shape: z.array(size),
  data_offsets: z.tuple([size, size]),
});
const metadataSchema = z.record(z.string(), z.string());
const shardIndexSchema = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

function isDtype(dtype: string): dtype is SafetensorsDtype {
  return Object.hasOwn(WIDTH, dtype);
}

function parseJson(text: string, where: string, hint: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserError(`is not valid JSON (${messageOf(error)})`, where, hint);
  }
}

/** The checked header of one file: entries in the order of their bytes, which leave no gap and no overlap. */
export function readHeader(file: string): { entries: SafetensorsEntry[]; metadata: Record<string, string> } {
  const fd = openFile(file);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new UserError('is not a file', file, 'Give a .safetensors file.');
    if (stat.size < 10)
      throw new UserError(`has only ${stat.size} bytes, too few for a header`, file, DAMAGED);
    const prefix = new DataView(new ArrayBuffer(8));
    readFully(fd, new Uint8Array(prefix.buffer), 0, file);
    const headerBytes = Number(prefix.getBigUint64(0, true));
    if (headerBytes > MAX_HEADER || 8 + headerBytes > stat.size) {
      const what = `says that its header has ${headerBytes} bytes; the file has ${stat.size}`;
      throw new UserError(
        what,
        file,
        `${DAMAGED} Or it is no safetensors file (a Git LFS pointer, an HTML page).`,
      );
    }
    const text = Buffer.alloc(headerBytes);
    readFully(fd, text, 8, file);
    const header = z
      .record(z.string(), z.unknown())
      .safeParse(parseJson(text.toString('utf8'), file, DAMAGED));
    if (!header.success) throw new UserError('its header is not a JSON object', file, DAMAGED);
    return checkHeader(header.data, file, 8 + headerBytes, stat.size);
  } finally {
    closeSync(fd);
  }
}

function checkHeader(header: Record<string, unknown>, file: string, dataStart: number, fileBytes: number) {
  const { __metadata__, ...rows } = header;
  const metadata = metadataSchema.safeParse(__metadata__ ?? {});
  if (!metadata.success) throw new UserError('its __metadata__ is not a map of strings', file, DAMAGED);
  const entries = Object.entries(rows).map(([name, value]) => checkEntry(name, value, file, dataStart));
  entries.sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  let end = dataStart;
  for (const entry of entries) {
    if (entry.offset !== end) {
      const what = entry.offset < end ? 'overlaps the tensor before it' : 'leaves a gap before it';
      throw new UserError(`tensor ${entry.name} ${what} (data_offsets)`, file, DAMAGED);
    }
    end += entry.bytes;
  }
  if (end !== fileBytes) {
    const what = `its header describes ${end} bytes, the file has ${fileBytes}`;
    throw new UserError(end > fileBytes ? `is truncated: ${what}` : what, file, DAMAGED);
  }
  return { entries, metadata: metadata.data };
}

function checkEntry(name: string, value: unknown, file: string, dataStart: number): SafetensorsEntry {
  const row = rowSchema.safeParse(value);
  if (!row.success) throw new UserError(`its header's entry for ${name} is malformed`, file, DAMAGED);
  const { dtype, shape, data_offsets } = row.data;
  if (!isDtype(dtype)) {
    const hint = 'Quantised checkpoints cannot be trained here: save the model in bfloat16 or float32.';
    throw new UserError(`tensor ${name} has dtype ${dtype}; F32, F16 and BF16 can be read`, file, hint);
  }
  const [begin, end] = data_offsets;
  const bytes = shape.reduce((a, b) => a * b, WIDTH[dtype]);
  if (end - begin !== bytes) {
    const what = `tensor ${name} ${dtype}[${shape}] needs ${bytes} bytes, its data_offsets are [${begin}, ${end}]`;
    throw new UserError(what, file, DAMAGED);
  }
  return { name, dtype, shape, file, offset: dataStart + begin, bytes };
}

/**
 * The tensors of a Hugging Face model folder: `model.safetensors`, or the shards that
 * `model.safetensors.index.json` names. Only headers are read. Order: as in the file, or as in the index.
 * Errors (UserError): neither file there or both, a shard or tensor missing, anything wrong in a header (length,
 * JSON, dtype, shape against bytes, overlap, gap, truncation).
 */
export function readSafetensorsIndex(folder: string): Map<string, SafetensorsEntry> {
  const single = join(folder, 'model.safetensors');
  const indexFile = join(folder, 'model.safetensors.index.json');
  if (existsSync(single)) {
    // transformers reads the one, vLLM the other
    if (existsSync(indexFile))
      throw new UserError(
        'has both model.safetensors and model.safetensors.index.json',
        folder,
        'Remove the one that does not belong to the model.',
      );
    return new Map(readHeader(single).entries.map((entry) => [entry.name, entry]));
  }
  if (!existsSync(indexFile)) {
    const pickled = ['pytorch_model.bin', 'pytorch_model.bin.index.json'].some((name) =>
      existsSync(join(folder, name)),
    );
    const hint = pickled
      ? 'Its weights are pickled (pytorch_model.bin): load it with transformers and save_pretrained it.'
      : 'Give the folder of a model in Hugging Face layout with safetensors weights.';
    throw new UserError('has neither model.safetensors nor model.safetensors.index.json', folder, hint);
  }
  const index = shardIndexSchema.safeParse(parseJson(readFileSync(indexFile, 'utf8'), indexFile, DAMAGED));
  if (!index.success) throw new UserError('has no weight_map from tensor names to files', indexFile, DAMAGED);
  const weightMap = Object.entries(index.data.weight_map);
  const shards = new Map<string, Map<string, SafetensorsEntry>>();
  for (const shard of new Set(weightMap.map(([, file]) => file))) {
    // A model folder may come from anywhere: its index must not point outside it.
    if (basename(shard) !== shard || shard === '..' || shard.includes('\\')) {
      throw new UserError(
        `names the shard ${JSON.stringify(shard)}, which is not a plain file name`,
        indexFile,
      );
    }
    const file = join(folder, shard);
    if (!existsSync(file)) {
      throw new UserError(`the shard ${shard} is missing`, indexFile, 'Download the rest of the model.');
    }
    shards.set(shard, new Map(readHeader(file).entries.map((entry) => [entry.name, entry])));
  }
  const entries = new Map<string, SafetensorsEntry>();
  for (const [name, shard] of weightMap) {
    const entry = shards.get(shard)?.get(name);
    if (!entry) throw new UserError(`says that ${name} is in ${shard}, but it is not`, indexFile, DAMAGED);
    entries.set(name, entry);
  }
  return entries;
}

/** Elements widened in one step: bounds the memory a half-precision tensor needs beyond its result. */
const WIDEN_CHUNK = 1 << 22;

function readEntry(fd: number, entry: SafetensorsEntry): Tensor {
  const data = new Float32Array(entry.bytes / WIDTH[entry.dtype]);
  if (entry.dtype === 'F32') {
    readFully(fd, new Uint8Array(data.buffer), entry.offset, entry.file);
  } else {
    const widen = entry.dtype === 'F16' ? f16ToF32 : bf16ToF32;
    const halves = new Uint16Array(Math.min(data.length, WIDEN_CHUNK));
    for (let i = 0; i < data.length; i += WIDEN_CHUNK) {
      const chunk = halves.subarray(0, Math.min(WIDEN_CHUNK, data.length - i));
      readFully(fd, new Uint8Array(chunk.buffer, 0, chunk.byteLength), entry.offset + 2 * i, entry.file);
      widen(chunk, data.subarray(i, i + chunk.length));
    }
  }
  return { shape: [...entry.shape], data };
}

/** Reads one tensor, widened to f32 (exactly). UserError when the file is gone or shorter than it was. */
export function readTensor(entry: SafetensorsEntry): Tensor {
  const fd = openFile(entry.file);
  try {
    return readEntry(fd, entry);
  } finally {
    closeSync(fd);
  }
}

/** Reads a whole file, widened to f32; tensors in the order of their bytes. Errors as in readSafetensorsIndex. */
export function readSafetensors(path: string): { tensors: TensorMap; metadata: Record<string, string> } {
  const { entries, metadata } = readHeader(path);
  const fd = openFile(path);
  try {
    return { tensors: new Map(entries.map((entry) => [entry.name, readEntry(fd, entry)])), metadata };
  } finally {
    closeSync(fd);
  }
}

/**
 * The bytes of a tensor in `dtype`, rounded to nearest even. UserError with `name` when a finite value does
 * not fit into F16.
 */
export function narrow(name: string, data: Float32Array, dtype: SafetensorsDtype): Uint8Array {
  if (dtype === 'F32') return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const halves = new Uint16Array(data.length);
  if (dtype === 'BF16') f32ToBf16(data, halves);
  else {
    const far = data.find((x) => Math.abs(x) >= 65520 && Math.abs(x) !== Infinity);
    if (far !== undefined)
      throw new UserError(`${name} holds ${far}, beyond F16's range`, undefined, 'Write F32 or BF16.');
    f32ToF16(data, halves);
  }
  return new Uint8Array(halves.buffer);
}

export interface SafetensorsOptions {
  dtype: SafetensorsDtype;
  metadata?: Record<string, string>;
}

/**
 * The bytes of a file with `tensors` in their order, chunk by chunk: header, then a tensor each. They depend
 * on the arguments alone. The header is padded with spaces so that the data starts at a multiple of 8, as the
 * format asks. Narrowing to F16/BF16 rounds to nearest even; UserError when a finite value does not fit into
 * F16.
 */
export function* safetensorsChunks(tensors: TensorMap, options: SafetensorsOptions): Generator<Uint8Array> {
  const rows: [string, unknown][] = options.metadata ? [['__metadata__', options.metadata]] : [];
  let offset = 0;
  for (const [name, { shape, data }] of tensors) {
    const elements = shape.reduce((a, b) => a * b, 1);
    if (elements !== data.length) throw new Error(`${name}: shape [${shape}] but ${data.length} elements`);
    if (name === '__metadata__') throw new Error('__metadata__ cannot name a tensor');
    const end = offset + elements * WIDTH[options.dtype];
    rows.push([name, { dtype: options.dtype, shape, data_offsets: [offset, end] }]);
    offset = end;
  }
  // Not JSON.stringify of one object: that would move names that look like integers to the front.
  const json = Buffer.from(
    `{${rows.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(',')}}`,
  );
  const header = Buffer.alloc(Math.ceil((8 + json.length) / 8) * 8, 0x20);
  header.writeBigUInt64LE(BigInt(header.length - 8));
  json.copy(header, 8);
  yield header;
  for (const [name, { data }] of tensors) yield narrow(name, data, options.dtype);
}

/** Writes `safetensorsChunks` to `path`, atomically. */
export function writeSafetensors(path: string, tensors: TensorMap, options: SafetensorsOptions): void {
  writeFileAtomicSync(path, safetensorsChunks(tensors, options));
}
