/** What the interpreter holds and lets go; that it computes the right values is ops.test.ts's. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import type { Value } from '../executor.ts';
import { createGraph, exp, input, neg, plus, reshape, scalar, times, weight } from '../graph.ts';
import { readSafetensors, readSafetensorsIndex, writeSafetensors } from '../safetensors.ts';
import { ALL_MODULES, chainBatch, maxDifference, randomAdapter, TINY, tinyModel } from '../test-support.ts';
import { FAST } from '../training-graph.ts';
import { createTrainingSession } from '../training-session.ts';
import type { TensorMap } from '../types.ts';
import type { Tfjs } from './backend.ts';
import { createTfjsExecutor } from './session.ts';
import { tfjsCore, tfjsCpu } from './test-support-cpu.ts';

const tensors = (): number => tfjsCore.memory().numTensors;

/** The backend, with a look at how much is alive after each call within a run. */
function watched(look: () => void): Tfjs {
  return {
    ...tfjsCpu,
    tidy(f) {
      const made = tfjsCpu.tidy(f);
      look();
      return made;
    },
  };
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-tfjs-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const wide = { shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) };
describe('the interpreter', () => {
  test('steps of a model leave no tensor behind, and releasing frees the weights', async () => {
    const before = tensors();
    const model = tinyModel({ ...TINY, hidden: 8, headDim: 4, ffn: 10 });
    const lora = { r: 2, alpha: 4, rslora: false, targets: ALL_MODULES };
    const executor = createTfjsExecutor(tfjsCpu);
    const options = { folder: model, lora, mode: 'lora', threads: 1, executor } as const;
    const backward = await createTrainingSession({ ...options, gradients: true });
    const afterOne = tensors() - before;
    const weights = readSafetensorsIndex(model).size;
    expect(afterOne).toBeGreaterThanOrEqual(weights);
    const forward = await createTrainingSession({ ...options, gradients: false });
    // the second has constants of its own, and the first one's weights
    expect(tensors() - before - afterOne).toBeLessThan(afterOne - weights + 1);
    const open = tensors();
    const params = randomAdapter(model, lora).tensors;
    const random = stream(1, 'leak');
    for (let step = 0; step < 4; step++) {
      const ids = Array.from({ length: 3 + step }, () => random.int(50));
      const batch = chainBatch([{ ids }, { ids: ids.slice(1) }]);
      const coef = Float32Array.from(batch.targetId, () => random.normal());
      await backward.run(batch, params, 2, { coef });
      await forward.run(batch, params, 0);
      expect(tensors()).toBe(open);
    }
    await backward.release();
    await backward.release();
    await forward.run(chainBatch([{ ids: [1, 2, 3] }]), params, 0);
    await forward.release();
    expect(tensors()).toBe(before);
    await expect(forward.run(chainBatch([{ ids: [1, 2] }]), params, 0)).rejects.toThrow(/released/);
    rmSync(model, { recursive: true });
  });

  test('a tensor is freed after its last use: a long chain needs no more than a short one', async () => {
    const peakOf = async (length: number): Promise<number> => {
      let peak = 0;
      const start = tensors();
      const executor = createTfjsExecutor(
        watched(() => {
          peak = Math.max(peak, tensors() - start);
        }),
      );
      const graph = createGraph();
      let x = input(graph, 'x', 'f32', ['N']);
      for (let i = 0; i < length; i++) x = i % 2 === 0 ? neg(x) : exp(x);
      const session = await executor(new Map([['y', x]]), { weights: new Map(), threads: 1 });
      await session.run(new Map([['x', { shape: [2], data: Float32Array.of(0.1, 0.2) }]]));
      await session.release();
      return peak;
    };
    expect(await peakOf(40)).toBe(await peakOf(4));
  });

  test('recomputing layers holds less memory at its peak, and changes no gradient', async () => {
    const model = tinyModel({ ...TINY, layers: 6, heads: 2, kvHeads: 1, ffn: 48 });
    const lora = { r: 2, alpha: 4, rslora: false, targets: ALL_MODULES };
    const batch = chainBatch([{ ids: Array.from({ length: 16 }, (_, i) => i) }]);
    const coef = new Float32Array(batch.targetId.length).fill(1);
    const peaks: number[] = [];
    const gradients: TensorMap[] = [];
    for (const memory of [FAST, { recompute: true, rowChunks: 3 }]) {
      let peak = 0;
      const start = tfjsCore.memory().numBytes;
      const executor = createTfjsExecutor(
        watched(() => {
          peak = Math.max(peak, tfjsCore.memory().numBytes - start);
        }),
      );
      const session = await createTrainingSession({
        folder: model,
        lora,
        mode: 'lora',
        gradients: true,
        threads: 1,
        memory,
        executor,
      });
      const result = await session.run(batch, randomAdapter(model, lora).tensors, 2, { coef });
      gradients.push(result.gradients!);
      await session.release();
      peaks.push(peak);
    }
    expect(peaks[1]! / peaks[0]!).toBeLessThan(0.7);
    for (const [name, { data }] of gradients[0]!) {
      const largest = Math.max(...data.map(Math.abs));
      expect(largest).toBeGreaterThan(0);
      expect(maxDifference(data, gradients[1]!.get(name)!.data) / largest, name).toBeLessThan(1e-5);
    }
    rmSync(model, { recursive: true });
  });

  test('results are copies: they change neither feeds nor weights, nor one another', async () => {
    writeSafetensors(join(folder, 'model.safetensors'), new Map([['w', wide]]), { dtype: 'F32' });
    const graph = createGraph();
    const w = weight(graph, 'w', [2, 3]);
    const x = input(graph, 'x', 'f32', ['N']);
    const executor = createTfjsExecutor(tfjsCpu);
    const session = await executor(
      new Map([
        ['w', w],
        ['flat', reshape(w, [6])],
        ['x', x],
        ['again', x],
      ]),
      { weights: readSafetensorsIndex(folder), threads: 1 },
    );
    const feed = { shape: [2], data: Float32Array.of(7, 8) };
    for (let run = 0; run < 2; run++) {
      const results = await session.run(new Map([['x', feed]]));
      expect([...results.keys()]).toEqual(['w', 'flat', 'x', 'again']);
      expect(results.get('w')).toEqual(wide);
      expect(results.get('flat')).toEqual({ shape: [6], data: wide.data });
      for (const { data } of results.values()) data.fill(-1);
    }
    expect(feed.data).toEqual(Float32Array.of(7, 8));
    await session.release();
  });

  test('a kernel that fails half-way leaves no tensor, and the session goes on', async () => {
    let fail = false;
    const executor = createTfjsExecutor({
      ...tfjsCpu,
      exp(x) {
        if (fail) throw new Error('OOM when allocating tensor');
        return tfjsCpu.exp(x);
      },
    });
    const graph = createGraph();
    const x = input(graph, 'x', 'f32', ['N']);
    const y = times(exp(plus(x, scalar(graph, 1))), x);
    const session = await executor(new Map([['y', y]]), { weights: new Map(), threads: 1 });
    const feeds = new Map([['x', { shape: [1], data: Float32Array.of(0) }]]);
    const open = tensors();
    fail = true;
    await expect(session.run(feeds)).rejects.toThrow(/OOM/);
    expect(tensors()).toBe(open);
    fail = false;
    expect((await session.run(feeds)).get('y')!.data).toEqual(Float32Array.of(0));
    await session.release();
  });

  test('feeds that are missing or do not fit are named', async () => {
    const graph = createGraph();
    const sum = plus(input(graph, 'x', 'f32', ['N', 3]), input(graph, 'y', 'f32', ['N', 1]));
    const executor = createTfjsExecutor(tfjsCpu);
    const session = await executor(new Map([['sum', sum]]), { weights: new Map(), threads: 1 });
    await expect(session.run(new Map())).rejects.toThrow(/input 'x' is missing/);
    const zeros = (...shape: number[]) => ({ shape, data: new Float32Array(shape[0]! * shape[1]!) });
    const run = (x: Value, y: Value) =>
      session.run(
        new Map([
          ['x', x],
          ['y', y],
        ]),
      );
    await expect(run(zeros(2, 4), zeros(2, 1))).rejects.toThrow(
      /'x' has shape \[2,4\]; \[N,3\] is \[2,3\] here/,
    );
    await expect(run(zeros(2, 3), zeros(1, 1))).rejects.toThrow(/'y' has shape \[1,1\]/);
    await session.release();
  });

  test('a weight that cannot be read frees those before it', async () => {
    const before = tensors();
    const graph = createGraph();
    const both = plus(weight(graph, 'w', [2, 3]), weight(graph, 'gone', [2, 3]));
    writeSafetensors(join(folder, 'model.safetensors'), new Map([['w', wide]]), { dtype: 'F32' });
    const weights = readSafetensorsIndex(folder);
    weights.set('gone', { ...weights.get('w')!, name: 'gone', file: join(folder, 'gone.safetensors') });
    const executor = createTfjsExecutor(tfjsCpu);
    await expect(executor(new Map([['y', both]]), { weights, threads: 1 })).rejects.toThrow(
      /gone\.safetensors: cannot be opened/,
    );
    expect(tensors()).toBe(before);
    expect(readSafetensors(join(folder, 'model.safetensors')).tensors.size).toBe(1);
  });
});
