import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { mergeTensor, writeMergedWeights } from './merge-adapter.ts';
import { loraScale } from './peft.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { randomAdapter, tinyModel } from './test-support.ts';

const scratch = temporaryFolder();
const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true });
});
const spec = { r: 3, alpha: 5, rslora: true, targets: ['k_proj', 'down_proj'] };

test('W + scale · B A, summed in f64', () => {
  const random = stream(1, 'merge');
  const matrix = (rows: number, columns: number) => ({
    shape: [rows, columns],
    data: Float32Array.from({ length: rows * columns }, () => random.normal()),
  });
  const [w, a, b] = [matrix(4, 7), matrix(3, 7), matrix(4, 3)];
  const merged = mergeTensor(w, a, b, 1.7);
  expect(merged.shape).toEqual([4, 7]);
  for (let o = 0; o < 4; o++)
    for (let i = 0; i < 7; i++) {
      const delta = [0, 1, 2].reduce((sum, k) => sum + b.data[o * 3 + k]! * a.data[k * 7 + i]!, 0);
      expect(merged.data[o * 7 + i]).toBeCloseTo(w.data[o * 7 + i]! + 1.7 * delta, 6);
    }
});

test('only the adapted matrices change; header, order, dtype and every other byte stay', async () => {
  for (const dtype of ['F32', 'F16', 'BF16'] as const) {
    const base = tinyModel(undefined, dtype);
    made.push(base);
    const adapter = randomAdapter(base, spec);
    const target = join(scratch, dtype);
    mkdirSync(target);
    const told: string[] = [];
    await writeMergedWeights(base, adapter, target, { onFile: (...about) => told.push(about.join()) });
    expect(told).toEqual(['model.safetensors,0,1']);
    const [from, to] = [base, target].map((folder) => join(folder, 'model.safetensors'));
    const [old, now] = [readFileSync(from!), readFileSync(to!)];
    expect(now.length).toBe(old.length);
    const start = 8 + Number(old.readBigUInt64LE());
    expect(now.subarray(0, start).equals(old.subarray(0, start))).toBe(true);
    const before = readSafetensors(from!).tensors;
    for (const [name, { data }] of readSafetensors(to!).tensors) {
      const was = before.get(name)!;
      const path = name.replace(/\.weight$/, '');
      const a = adapter.tensors.get(`base_model.model.${path}.lora_A.weight`);
      if (!a) {
        expect(data, name).toEqual(was.data);
        continue;
      }
      const b = adapter.tensors.get(`base_model.model.${path}.lora_B.weight`)!;
      const want = mergeTensor(was, a, b, loraScale(adapter.spec)).data;
      const relative = { F32: 0, F16: 2 ** -11, BF16: 2 ** -8 }[dtype];
      for (let i = 0; i < data.length; i++)
        // Half a unit in the last place; below F16's normal range that unit is 2^-24.
        expect(Math.abs(data[i]! - want[i]!)).toBeLessThanOrEqual(Math.abs(want[i]!) * relative + 2 ** -25);
    }
  }
});

test('of a model in shards each file gets its own tensors, whatever the order of the index', async () => {
  const base = tinyModel();
  made.push(base);
  const adapter = randomAdapter(base, spec);
  const [whole, parts] = [join(scratch, 'whole'), join(scratch, 'parts')];
  for (const folder of [whole, parts]) mkdirSync(folder);
  await writeMergedWeights(base, adapter, whole);
  const single = join(base, 'model.safetensors');
  const tensors = [...readSafetensors(single).tensors];
  rmSync(single);
  const shards = [0, 1].map((shard) => ({
    file: `model-0000${shard + 1}-of-00002.safetensors`,
    own: new Map(tensors.filter((_, i) => i % 2 === shard)),
  }));
  for (const { file, own } of shards) writeSafetensors(join(base, file), own, { dtype: 'F32' });
  const rows = shards.flatMap(({ file, own }) => [...own.keys()].map((name) => [name, file]));
  const index = { weight_map: Object.fromEntries(rows.reverse()) };
  writeFileSync(join(base, 'model.safetensors.index.json'), JSON.stringify(index));
  await writeMergedWeights(base, adapter, parts);
  const merged = readSafetensors(join(whole, 'model.safetensors')).tensors;
  for (const { file, own } of shards) {
    const written = readSafetensors(join(parts, file)).tensors;
    expect([...written.keys()]).toEqual([...own.keys()]);
    for (const [name, { data }] of written) expect(data, name).toEqual(merged.get(name)!.data);
  }
});

test('a base that is not the one, is truncated, or overflows is refused; a signal ends it', async () => {
  const base = tinyModel(undefined, 'F16');
  made.push(base);
  const weights = join(base, 'model.safetensors');
  const adapter = randomAdapter(base, spec);
  const { tensors } = readSafetensors(weights);
  const write = (edit: (copy: typeof tensors) => void): void => {
    const copy = new Map(tensors);
    edit(copy);
    writeSafetensors(weights, copy, { dtype: 'F16' });
  };
  const name = 'model.layers.1.mlp.down_proj.weight';
  write((copy) => copy.delete(name));
  await expect(writeMergedWeights(base, adapter, scratch)).rejects.toThrow(`${name} is missing`);
  write((copy) => copy.set(name, { shape: [1], data: new Float32Array(1) }));
  await expect(writeMergedWeights(base, adapter, scratch)).rejects.toThrow(
    `${name} is [1], the adapter needs`,
  );
  write((copy) => copy.set(name, { ...tensors.get(name)!, data: tensors.get(name)!.data.map(() => 65504) }));
  const loud = { ...adapter, spec: { ...spec, alpha: 1e6 } };
  await expect(writeMergedWeights(base, loud, scratch)).rejects.toThrow(/beyond F16's range/);
  write(() => {});
  const signal = AbortSignal.abort(new Error('stop'));
  await expect(writeMergedWeights(base, adapter, scratch, { signal })).rejects.toThrow('stop');
  writeFileSync(weights, readFileSync(weights).subarray(0, -5));
  await expect(writeMergedWeights(base, adapter, scratch)).rejects.toThrow(/model.safetensors/);
});
