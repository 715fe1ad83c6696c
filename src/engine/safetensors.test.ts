import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { readSafetensors, readSafetensorsIndex, readTensor, writeSafetensors } from './safetensors.ts';
import type { TensorMap } from './types.ts';

const vectors = fileURLToPath(new URL('../../test/vectors', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'safetensors-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let files = 0;
/** A file with this header (an object, or raw text) and this many data bytes. */
function fileWith(header: unknown, dataBytes: number, headerLength?: bigint): string {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(headerLength ?? BigInt(json.length));
  const path = join(scratch, `${files++}.safetensors`);
  writeFileSync(path, Buffer.concat([prefix, json, Buffer.alloc(dataBytes)]));
  return path;
}

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
  throw new Error('was accepted');
}

test('reads what the reference implementation wrote, in every dtype', () => {
  const { tensors, metadata } = readSafetensors(join(vectors, 'half.safetensors'));
  expect(metadata).toEqual({ note: '法' });
  const values = tensors.get('values')!;
  expect(values.data[1]).toBe(-0);
  expect(values.data[4]).toBe(Infinity);
  expect(tensors.get('matrix')!.shape).toEqual([3, 5]);
  // PyTorch narrowed `values` itself; our narrowing of the same f32 must agree in every element.
  for (const [name, dtype] of [
    ['halves', 'F16'],
    ['brain', 'BF16'],
  ] as const) {
    const path = join(scratch, `${name}.safetensors`);
    writeSafetensors(path, new Map([[name, values]]), { dtype });
    expect([...readSafetensors(path).tensors.get(name)!.data]).toEqual([...tensors.get(name)!.data]);
  }
});

test('the index gives byte offsets of the tensors themselves', () => {
  const folder = join(vectors, 'qwen3-tiny');
  const index = readSafetensorsIndex(folder);
  const entry = index.get('model.layers.1.mlp.down_proj.weight')!;
  expect(entry).toMatchObject({ dtype: 'F32', shape: [32, 48], bytes: 32 * 48 * 4 });
  const bytes = readFileSync(entry.file);
  expect(readTensor(entry).data[7]).toBe(bytes.readFloatLE(entry.offset + 28));
  expect(index.has('lm_head.weight')).toBe(false);
  expect(index.size).toBe(1 + 1 + 2 * 11);
});

test('what is written comes back: order, names, shapes, values; same tensors, same bytes', () => {
  const random = stream(5, 'tensors');
  for (let round = 0; round < 30; round++) {
    const tensors: TensorMap = new Map();
    for (let i = random.int(6); i >= 0; i--) {
      const shape = Array.from({ length: random.int(4) }, () => random.int(5));
      const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.normal());
      // Names that look like integers would move to the front of a plain object.
      tensors.set(random.int(2) ? `法 "${i}"\n` : `${i}`, { shape, data });
    }
    const [a, b] = [join(scratch, 'a.safetensors'), join(scratch, 'b.safetensors')];
    const metadata = { step: String(round) };
    for (const path of [a, b]) writeSafetensors(path, tensors, { dtype: 'F32', metadata });
    const bytes = readFileSync(a);
    expect(bytes.equals(readFileSync(b))).toBe(true);
    expect((8 + Number(bytes.readBigUInt64LE())) % 8).toBe(0);
    expect(bytes[8]).toBe(0x7b);
    const back = readSafetensors(a);
    expect(back.metadata).toEqual(metadata);
    expect(new Map(back.tensors)).toEqual(new Map(tensors));
    const positive = (map: TensorMap) => [...map].filter(([, t]) => t.data.length > 0).map(([name]) => name);
    expect(positive(back.tensors)).toEqual(positive(tensors));
  }
  expect(readdirSync(scratch).filter((name) => name.includes('.tmp'))).toEqual([]);
});

test('a failed write leaves the old file and no temporary one', () => {
  const path = join(scratch, 'kept.safetensors');
  const tensor = { shape: [1], data: Float32Array.of(3) };
  writeSafetensors(path, new Map([['x', tensor]]), { dtype: 'F16' });
  const far = new Map([['x', { shape: [1], data: Float32Array.of(1e5) }]]);
  expect(refusal(() => writeSafetensors(path, far, { dtype: 'F16' }))).toMatch(/x holds 100000.*F16/);
  expect(readSafetensors(path).tensors.get('x')!.data[0]).toBe(3);
  expect(readdirSync(scratch).filter((name) => name.includes('.tmp'))).toEqual([]);
});

test('damaged files are refused by name', () => {
  const row = (begin: number, end: number, shape = [(end - begin) / 4]) => ({
    dtype: 'F32',
    shape,
    data_offsets: [begin, end],
  });
  const cases: [RegExp, string][] = [
    [/truncated/, fileWith({ a: row(0, 8) }, 7)],
    [/describes \d+ bytes/, fileWith({ a: row(0, 8) }, 9)],
    [/overlaps/, fileWith({ a: row(0, 8), b: row(4, 12) }, 12)],
    [/gap/, fileWith({ a: row(0, 8), b: row(12, 16) }, 16)],
    [/gap/, fileWith({ a: row(4, 8) }, 8)],
    [/a F32\[3\] needs 12 bytes/, fileWith({ a: row(0, 8, [3]) }, 8)],
    [/needs -?\d+ bytes|malformed/, fileWith({ a: row(8, 0, [2]) }, 8)],
    [/malformed/, fileWith({ a: row(0, 4, [-1]) }, 4)],
    [/malformed/, fileWith({ a: { dtype: 'F32', shape: [1] } }, 4)],
    [/malformed/, fileWith({ a: row(0, 4, [2 ** 60]) }, 4)],
    [/dtype F8_E4M3/, fileWith({ a: { dtype: 'F8_E4M3', shape: [4], data_offsets: [0, 4] } }, 4)],
    [/dtype toString/, fileWith({ a: { dtype: 'toString', shape: [4], data_offsets: [0, 4] } }, 4)],
    [/not valid JSON/, fileWith('{"a":', 4)],
    [/not a JSON object/, fileWith('[1, 2, 3]', 4)],
    [/__metadata__/, fileWith({ __metadata__: { n: 1 } }, 0)],
    [/header has 18446744073709552000 bytes/, fileWith({}, 100, 0xffffffffffffffffn)],
    [/header has 100000001 bytes/, fileWith({}, 100, 100000001n)],
    [/header has 200 bytes/, fileWith({}, 100, 200n)],
    [/too few/, fileWith('', 0)],
  ];
  for (const [message, path] of cases) {
    const text = refusal(() => readSafetensors(path));
    expect(text).toMatch(message);
    expect(text).toContain(path);
    expect(text).toContain('→');
  }
  expect(refusal(() => readSafetensors(join(scratch, 'nowhere')))).toMatch(/cannot be opened/);
  expect(refusal(() => readSafetensors(scratch))).toMatch(/not a file/);
});

test('a file that shrinks after its header was read is noticed', () => {
  const path = fileWith({ a: { dtype: 'F16', shape: [4], data_offsets: [0, 8] } }, 8);
  const folder = join(scratch, 'shrinking');
  mkdirSync(folder);
  copyFileSync(path, join(folder, 'model.safetensors'));
  const entry = readSafetensorsIndex(folder).get('a')!;
  writeFileSync(entry.file, readFileSync(entry.file).subarray(0, -3));
  expect(refusal(() => readTensor(entry))).toMatch(/before its tensors do/);
});

test('shards: found through the index, and every fault of it named', () => {
  const folder = join(scratch, 'sharded');
  mkdirSync(folder);
  const one = (value: number) => ({ shape: [1], data: Float32Array.of(value) });
  writeSafetensors(join(folder, 'm-1.safetensors'), new Map([['a', one(1)]]), { dtype: 'BF16' });
  writeSafetensors(
    join(folder, 'm-2.safetensors'),
    new Map([
      ['b', one(2)],
      ['c', one(3)],
    ]),
    { dtype: 'F32' },
  );
  const index = (weight_map: unknown) =>
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map }));
  index({ a: 'm-1.safetensors', c: 'm-2.safetensors', b: 'm-2.safetensors' });
  const entries = readSafetensorsIndex(folder);
  expect([...entries].map(([name, entry]) => [name, readTensor(entry).data[0]])).toEqual([
    ['a', 1],
    ['c', 3],
    ['b', 2],
  ]);
  index({ d: 'm-2.safetensors' });
  expect(refusal(() => readSafetensorsIndex(folder))).toMatch(/d is in m-2.safetensors, but it is not/);
  index({ a: 'm-3.safetensors' });
  expect(refusal(() => readSafetensorsIndex(folder))).toMatch(/m-3.safetensors is missing/);
  for (const shard of ['../x.safetensors', '/etc/passwd', '..', 'a\\b']) {
    index({ a: shard });
    expect(refusal(() => readSafetensorsIndex(folder))).toMatch(/not a plain file name/);
  }
  index([]);
  expect(refusal(() => readSafetensorsIndex(folder))).toMatch(/weight_map/);
  expect(refusal(() => readSafetensorsIndex(tmpdir()))).toMatch(/neither model.safetensors nor/);
});
