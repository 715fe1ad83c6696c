/** Against PyTorch, transformers and PEFT: `scripts/reference-vectors.py` wrote test/vectors/qwen3-tiny. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Random, stream } from '../base/random.ts';
import { loraScale, readAdapter } from './peft.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { ALL_MODULES, chainBatch, maxDifference, randomAdapter, TINY, tinyModel } from './test-support.ts';
import { createTrainingSession, type TrainingSession } from './training-session.ts';
import type { Adapter, TensorMap } from './types.ts';

const folder = fileURLToPath(new URL('../../test/vectors/qwen3-tiny', import.meta.url));

interface Rows {
  logprobs: number[];
  entropies: number[];
}
interface Sample {
  ids: number[];
  promptLength: number;
  coef: number[];
  base: Record<string, Rows>;
  adapter: Record<string, Rows>;
}
const vectors = JSON.parse(readFileSync(`${folder}/vectors.json`, 'utf8')) as {
  entropyCoef: number;
  samples: Sample[];
  objective: Record<string, number>;
};
const expected = readSafetensors(`${folder}/expected.safetensors`).tensors;

describe('a tiny Qwen3 as transformers and PEFT compute it', () => {
  let adapter: Adapter;
  let scale: number;
  let lora: TrainingSession;
  let full: TrainingSession;
  let everything: TensorMap;

  beforeAll(async () => {
    adapter = readAdapter(`${folder}/adapter`);
    scale = loraScale(adapter.spec);
    const options = { folder, lora: adapter.spec, gradients: true, threads: 1 };
    lora = await createTrainingSession({ ...options, mode: 'lora' });
    full = await createTrainingSession({ ...options, mode: 'full' });
    const base = readSafetensors(`${folder}/model.safetensors`).tensors;
    everything = new Map([...base, ...adapter.tensors]);
  });
  afterAll(async () => {
    await lora.release();
    await full.release();
  });

  for (const temperature of [1, 0.7]) {
    const key = `temperature ${temperature}`;

    test(`log-probabilities and entropies, ${key}`, async () => {
      const batch = chainBatch(vectors.samples.map(({ ids }) => ({ ids })));
      for (const [kind, factor] of [
        ['base', 0],
        ['adapter', scale],
      ] as const) {
        const { rows } = await lora.run(batch, adapter.tensors, factor, { temperature });
        const want = (field: 'logprobs' | 'entropies') =>
          vectors.samples.flatMap((s) => s[kind][key]![field]);
        expect(maxDifference(rows.logprobs, want('logprobs'))).toBeLessThan(1e-5);
        expect(maxDifference(rows.entropies, want('entropies'))).toBeLessThan(1e-5);
      }
    });

    test(`gradients of LoRA tensors and of base weights, ${key}`, async () => {
      const batch = chainBatch(vectors.samples);
      const coef = Float32Array.from(vectors.samples.flatMap((s) => s.coef));
      const entropyCoef = new Float32Array(coef.length).fill(vectors.entropyCoef);
      for (const [session, params] of [
        [lora, adapter.tensors],
        [full, everything],
      ] as const) {
        const { rows, gradients } = await session.run(batch, params, scale, {
          coef,
          entropyCoef,
          temperature,
        });
        const objective = coef.reduce(
          (sum, c, r) => sum + c * rows.logprobs[r]! + vectors.entropyCoef * rows.entropies[r]!,
          0,
        );
        expect(objective).toBeCloseTo(vectors.objective[key]!, 4);
        expect([...gradients!.keys()]).toEqual([...session.parameters.keys()]);
        let compared = 0;
        for (const [name, { data }] of gradients!) {
          const want = expected.get(`gradient.${temperature}.${name}`);
          if (!want) continue;
          const size = Math.max(...want.data.map(Math.abs));
          expect(maxDifference(data, want.data) / size, name).toBeLessThan(2e-5);
          compared++;
        }
        expect(compared).toBe(adapter.tensors.size + (session === full ? 4 : 0));
      }
    });
  }
});

/** A random tree: `parents[i] < i`; laid out depth-first. Returns the batch and each node's path. */
function randomTree(size: number, vocab: number, random: Random) {
  const children: number[][] = Array.from({ length: size }, () => []);
  for (let i = 1; i < size; i++) children[Math.max(0, i - 1 - random.int(3))]!.push(i);
  const ids: number[] = [];
  const depths: number[] = [];
  const ends: number[] = [];
  const paths: number[][] = [];
  const parentOf: number[] = [];
  const visit = (node: number, path: number[], parent: number): void => {
    const at = ids.length;
    ids.push(random.int(vocab));
    depths.push(path.length);
    paths.push([...path, ids[at]!]);
    parentOf.push(parent);
    ends.push(0);
    for (const child of children[node]!) visit(child, paths[at]!, at);
    ends[at] = ids.length;
  };
  visit(0, [], -1);
  return { ids, depths, ends, paths, parentOf };
}

describe('a token tree', () => {
  test('gives the values and gradients of its paths as separate samples', async () => {
    const folder = tinyModel();
    const random = stream(6, 'tree-test');
    const lora = { r: 4, alpha: 8, rslora: false, targets: ALL_MODULES };
    const session = await createTrainingSession({ folder, lora, mode: 'lora', gradients: true, threads: 2 });
    const params = randomAdapter(folder, lora).tensors;
    const trees = [randomTree(23, 50, random), randomTree(17, 50, random)];
    const length = 26;
    const size = trees.length * length;
    const tree = {
      trees: trees.length,
      length,
      ids: new Int32Array(size),
      positions: new Int32Array(size),
      subtreeEnd: Int32Array.from({ length: size }, (_, i) => (i % length) + 1),
    };
    const rows = trees.flatMap(({ ids, depths, ends, paths, parentOf }, t) => {
      tree.ids.set(ids, t * length);
      tree.positions.set(depths, t * length);
      tree.subtreeEnd.set(ends, t * length);
      return ids.flatMap((id, i) =>
        i === 0 ? [] : [{ hidden: t * length + parentOf[i]!, id, path: paths[i]! }],
      );
    });
    // siblings share a hidden position: their gradients must add up there
    expect(new Set(rows.map((r) => r.hidden)).size).toBeLessThan(rows.length);
    const coef = Float32Array.from(rows, () => random.normal());
    const entropyCoef = Float32Array.from(rows, () => random.normal());
    const packed = await session.run(
      {
        ...tree,
        hiddenIndex: Int32Array.from(rows, (r) => r.hidden),
        targetId: Int32Array.from(rows, (r) => r.id),
      },
      params,
      2,
      { coef, entropyCoef },
    );
    // every row as a sample of its own: the path to it, its last token the only row
    const samples = rows.map(({ path }) => ({ ids: path, promptLength: path.length - 1 }));
    const alone = await session.run(chainBatch(samples), params, 2, { coef, entropyCoef });
    expect(maxDifference(packed.rows.logprobs, alone.rows.logprobs)).toBeLessThan(1e-5);
    expect(maxDifference(packed.rows.entropies, alone.rows.entropies)).toBeLessThan(1e-5);
    for (const [name, { data }] of alone.gradients!) {
      const largest = Math.max(...data.map(Math.abs));
      expect(maxDifference(packed.gradients!.get(name)!.data, data) / largest, name).toBeLessThan(1e-5);
    }
    await session.release();
    rmSync(folder, { recursive: true });
  });
});

describe('a session', () => {
  test('gives the same bytes for the same inputs, and holds its memory', async () => {
    const folder = tinyModel({ ...TINY, hidden: 64, ffn: 96, headDim: 16, vocab: 300 });
    const lora = { r: 4, alpha: 8, rslora: false, targets: ALL_MODULES };
    const session = await createTrainingSession({ folder, lora, mode: 'full', gradients: true, threads: 2 });
    const params = new Map([
      ...readSafetensors(`${folder}/model.safetensors`).tensors,
      ...randomAdapter(folder, lora).tensors,
    ]);
    const random = stream(7, 'bytes');
    const batch = chainBatch(
      Array.from({ length: 4 }, () => ({ ids: Array.from({ length: 60 }, () => random.int(300)) })),
    );
    const coef = Float32Array.from(batch.targetId, () => random.normal());
    const first = await session.run(batch, params, 2, { coef, entropyCoef: coef });
    let after10 = 0;
    for (let i = 0; i < 40; i++) {
      const again = await session.run(batch, params, 2, { coef, entropyCoef: coef });
      expect(maxDifference(again.rows.logprobs, first.rows.logprobs)).toBe(0);
      for (const [name, { data }] of again.gradients!) {
        expect(maxDifference(data, first.gradients!.get(name)!.data), name).toBe(0);
      }
      if (i === 10) after10 = process.memoryUsage().rss;
    }
    // one run's activations alone are more than 10 MB: a leak of them would show 30 times
    expect(process.memoryUsage().rss - after10).toBeLessThan(150e6);
    await session.release();
    rmSync(folder, { recursive: true });
  });

  test.each([
    ['lora', { recompute: true, rowChunks: 1 }],
    ['lora', { recompute: false, rowChunks: 3 }],
    ['full', { recompute: true, rowChunks: 4 }],
    ['full', { recompute: true, rowChunks: 9 }],
  ] as const)('mode %s: a memory plan %o changes no result', async (mode, memory) => {
    const folder = tinyModel();
    const lora = { r: 4, alpha: 8, rslora: false, targets: ALL_MODULES };
    const options = { folder, lora, mode, gradients: true, threads: 1 };
    const params = new Map([
      ...(mode === 'full' ? readSafetensors(`${folder}/model.safetensors`).tensors : []),
      ...randomAdapter(folder, lora).tensors,
    ]);
    const random = stream(8, 'plan');
    const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(50));
    const batch = chainBatch([{ ids: ids(6) }, { ids: ids(9), promptLength: 7 }]);
    const coef = Float32Array.from(batch.targetId, () => random.normal());
    const results = [];
    for (const plan of [undefined, memory]) {
      const session = await createTrainingSession({ ...options, ...(plan ? { memory: plan } : {}) });
      results.push(await session.run(batch, params, 2, { coef, entropyCoef: coef.toReversed() }));
      await session.release();
    }
    const [fast, small] = results;
    expect(maxDifference(small!.rows.logprobs, fast!.rows.logprobs)).toBeLessThan(1e-5);
    expect(maxDifference(small!.rows.entropies, fast!.rows.entropies)).toBeLessThan(1e-5);
    for (const [name, { data }] of fast!.gradients!) {
      const largest = Math.max(...data.map(Math.abs));
      expect(maxDifference(small!.gradients!.get(name)!.data, data) / largest, name).toBeLessThan(1e-5);
    }
    rmSync(folder, { recursive: true });
  });

  test.each(['F16', 'BF16'] as const)('reads %s weights as their f32 values', async (dtype) => {
    const half = tinyModel(TINY, dtype);
    const wide = tinyModel();
    // the f32 model with the rounded values
    writeSafetensors(`${wide}/model.safetensors`, readSafetensors(`${half}/model.safetensors`).tensors, {
      dtype: 'F32',
    });
    const batch = chainBatch([{ ids: [4, 8, 15, 16, 23, 42] }]);
    const values = [];
    for (const folder of [half, wide]) {
      const session = await createTrainingSession({
        folder,
        lora: null,
        mode: 'lora',
        gradients: false,
        threads: 1,
      });
      values.push((await session.run(batch, new Map(), 0)).rows.logprobs);
      await session.release();
      rmSync(folder, { recursive: true });
    }
    expect(maxDifference(values[0]!, values[1]!)).toBe(0);
  });

  test('refuses parameters of another adapter, and weights of another config', async () => {
    const folder = tinyModel();
    const lora = { r: 4, alpha: 8, rslora: false, targets: ['q_proj'] };
    const session = await createTrainingSession({ folder, lora, mode: 'lora', gradients: false, threads: 1 });
    const batch = chainBatch([{ ids: [1, 2] }]);
    await expect(session.run(batch, new Map(), 1)).rejects.toThrow(/lora_A.weight' is missing/);
    const wrong = randomAdapter(folder, { ...lora, r: 2 }).tensors;
    await expect(session.run(batch, wrong, 1)).rejects.toThrow(/has shape \[2,16\]/);
    await session.release();
    const config = JSON.parse(readFileSync(`${folder}/config.json`, 'utf8'));
    writeFileSync(`${folder}/config.json`, JSON.stringify({ ...config, intermediate_size: 25 }));
    const again = createTrainingSession({ folder, lora, mode: 'lora', gradients: false, threads: 1 });
    await expect(again).rejects.toThrow(/config.json asks for \[25,16\]/);
    rmSync(folder, { recursive: true });
  });
});

test('weights of more layers, or of fewer, than config.json has belong to another model', async () => {
  const model = tinyModel();
  const file = `${model}/config.json`;
  const config = JSON.parse(readFileSync(file, 'utf8'));
  const openWith = (layers: number) => {
    writeFileSync(file, JSON.stringify({ ...config, num_hidden_layers: layers }));
    return createTrainingSession({ folder: model, lora: null, mode: 'full', gradients: false, threads: 1 });
  };
  const { layers } = TINY;
  await expect(openWith(layers - 1)).rejects.toThrow(
    new RegExp(`holds 'model.layers.${layers - 1}\\..*config.json has ${layers - 1} layers`),
  );
  await expect(openWith(layers + 1)).rejects.toThrow(new RegExp(`no tensor 'model.layers.${layers}\\.`));
  await (await openWith(layers)).release();
  rmSync(model, { recursive: true });
});
