/**
 * A base model with an adapter added into its weights: W + scale · B A. The weight files keep their names,
 * shards, headers and dtypes; only the bytes of adapted matrices differ, so nothing larger than one tensor is
 * ever held.
 */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { basename, join } from 'node:path';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { openFile } from './file-bytes.ts';
import { loraScale } from './peft.ts';
import { narrow, readSafetensorsIndex, readTensor, type SafetensorsEntry } from './safetensors.ts';
import type { Adapter, Tensor } from './types.ts';

/**
 * W + scale · B A, for W `[out, in]`, A `[r, in]`, B `[out, r]`: summed in f64, rounded once to f32.
 */
export function mergeTensor(w: Tensor, a: Tensor, b: Tensor, scale: number): Tensor {
  const [out, inputs] = w.shape as [number, number];
  const r = a.shape[0]!;
  const data = new Float32Array(out * inputs);
  const row = new Float64Array(inputs);
  for (let o = 0; o < out; o++) {
    const start = o * inputs;
    for (let i = 0; i < inputs; i++) row[i] = w.data[start + i]!;
    for (let k = 0; k < r; k++) {
      const factor = scale * b.data[o * r + k]!;
      const from = k * inputs;
      for (let i = 0; i < inputs; i++) row[i]! += factor * a.data[from + i]!;
    }
    data.set(row, start);
  }
  return { shape: [out, inputs], data };
}

/** Names of base weights that the adapter changes, with its A and B for each. */
function adapted({ tensors }: Adapter): Map<string, { a: Tensor; b: Tensor }> {
  const out = new Map<string, { a: Tensor; b: Tensor }>();
  for (const [name, a] of tensors) {
    const path = /^base_model\.model\.(.+)\.lora_A\.weight$/.exec(name)?.[1];
    if (path === undefined) continue;
    out.set(`${path}.weight`, { a, b: tensors.get(name.replace('lora_A', 'lora_B'))! });
  }
  return out;
}

export interface MergeOptions {
  /** Throws its reason between two tensors. */
  signal?: AbortSignal | undefined;
  /** Called before each weights file. */
  onFile?: (file: string, index: number, count: number) => void;
}

/**
 * Writes the merged weight files of `baseFolder` into `target`, a folder that is there. The adapter must fit
 * the model (checkAdapterFits). The index of a sharded model is the caller's to copy: it stays valid.
 * UserError where the base is damaged or lacks a weight, or where a merged value does not fit into F16.
 */
export async function writeMergedWeights(
  baseFolder: string,
  adapter: Adapter,
  target: string,
  options: MergeOptions = {},
): Promise<void> {
  const entries = readSafetensorsIndex(baseFolder);
  const pairs = adapted(adapter);
  for (const [name, { a, b }] of pairs) {
    const shape = entries.get(name)?.shape;
    if (shape?.join() !== [b.shape[0], a.shape[1]].join())
      throw new UserError(
        shape
          ? `${name} is [${shape}], the adapter needs [${b.shape[0]},${a.shape[1]}]`
          : `${name} is missing`,
        baseFolder,
        'Give the base model that the adapter was trained on.',
      );
  }
  const scale = loraScale(adapter.spec);
  const files = [...new Set([...entries.values()].map(({ file }) => file))];
  for (const [index, file] of files.entries()) {
    options.onFile?.(basename(file), index, files.length);
    const changed = [...entries.values()]
      .filter((entry) => entry.file === file && pairs.has(entry.name))
      .sort((x, y) => x.offset - y.offset);
    const merge = (entry: SafetensorsEntry): Uint8Array => {
      const { a, b } = pairs.get(entry.name)!;
      return narrow(entry.name, mergeTensor(readTensor(entry), a, b, scale).data, entry.dtype);
    };
    await writeFileAtomic(join(target, basename(file)), patched(file, changed, merge, options.signal));
  }
}

const CHUNK = 8 << 20;

/** The bytes of `file`, with those of `entries` (in the order of their offsets) replaced one by one. */
function* patched(
  file: string,
  entries: SafetensorsEntry[],
  replace: (entry: SafetensorsEntry) => Uint8Array,
  signal: AbortSignal | undefined,
): Generator<Uint8Array> {
  const fd = openFile(file);
  try {
    let at = 0;
    for (const entry of entries) {
      yield* copied(fd, at, entry.offset, file, signal);
      yield replace(entry);
      at = entry.offset + entry.bytes;
    }
    yield* copied(fd, at, fstatSync(fd).size, file, signal);
  } finally {
    closeSync(fd);
  }
}

function* copied(
  fd: number,
  from: number,
  to: number,
  file: string,
  signal: AbortSignal | undefined,
): Generator<Uint8Array> {
  for (let at = from; at < to; ) {
    signal?.throwIfAborted();
    const chunk = new Uint8Array(Math.min(CHUNK, to - at));
    const got = readSync(fd, chunk, 0, chunk.length, at);
    if (got === 0) throw new UserError('became shorter while it was read', file, 'Copy the model again.');
    yield chunk.subarray(0, got);
    at += got;
  }
}
