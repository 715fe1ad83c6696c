/** The whole loss, in 64-bit floats on the reference executor: gradients against finite differences. */
import { rmSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { createGraph, input, type Node, plus, reduceSum, times } from './graph.ts';
import { readSafetensors } from './safetensors.ts';
import { ALL_MODULES, chainBatch, randomAdapter, TINY, tinyModel } from './test-support.ts';
import { type Dense, evaluate } from './test-support-reference.ts';
import { buildTrainingGraph, FAST } from './training-graph.ts';

const folder = tinyModel({ ...TINY, vocab: 17, hidden: 8, headDim: 4, ffn: 10 });
afterAll(() => rmSync(folder, { recursive: true }));
const lora = { r: 2, alpha: 4, rslora: false, targets: ALL_MODULES };

const dense = ({ shape, data }: { shape: number[]; data: ArrayLike<number> }): Dense => ({
  shape,
  data: Float64Array.from(data),
});

describe('the surrogate’s gradient', () => {
  test.each([
    ['lora', FAST],
    ['full', FAST],
    ['full', { recompute: true, rowChunks: 2 }],
  ] as const)('mode %s, %o: every parameter, along a random direction', (mode, memory) => {
    const random = stream(4, 'fd', mode);
    const graph = createGraph();
    const { outputs, parameters } = buildTrainingGraph(graph, {
      folder,
      lora,
      mode,
      gradients: true,
      memory,
    });
    const chunks = Array.from({ length: memory.rowChunks }, (_, k) => k);
    const surrogate = chunks
      .map((k) => {
        const value = (name: string, coef: string): Node => {
          const values = outputs.get(`${name} ${k}`)!;
          return times(values, input(graph, `${coef} ${k}`, 'f32', values.shape));
        };
        return reduceSum(plus(value('logprobs', 'coef'), value('entropies', 'entropy_coef')), [0]);
      })
      .reduce(plus);
    const batch = chainBatch([{ ids: [3, 9, 9, 16, 1] }, { ids: [5, 2, 11], promptLength: 2 }]);
    const grid = [batch.trees, batch.length];
    const count = batch.targetId.length;
    const feeds = new Map<string, Dense>([
      ['ids', dense({ shape: grid, data: batch.ids })],
      ['positions', dense({ shape: grid, data: batch.positions })],
      ['subtree_end', dense({ shape: grid, data: batch.subtreeEnd })],
      ['hidden_index', dense({ shape: [count], data: batch.hiddenIndex })],
      ['temperature', dense({ shape: [1], data: [0.7] })],
      ['lora_scale', dense({ shape: [1], data: [2] })],
    ]);
    const indices = Array.from({ length: count }, (_, i) => i);
    for (const k of chunks) {
      // uneven: all but one row in the last chunk
      const [start, end] = [k === 0 ? 0 : 1, k === chunks.length - 1 ? count : 1];
      const rows = (name: string, data: ArrayLike<number>): void => {
        feeds.set(`${name} ${k}`, dense({ shape: [end - start], data: Array.from(data).slice(start, end) }));
      };
      rows('chunk', indices);
      rows('target_id', batch.targetId);
      rows(
        'coef',
        indices.map(() => random.normal()),
      );
      rows(
        'entropy_coef',
        indices.map(() => random.normal()),
      );
    }
    for (const [name, tensor] of readSafetensors(`${folder}/model.safetensors`).tensors) {
      feeds.set(name, dense(tensor));
    }
    for (const [name, tensor] of randomAdapter(folder, lora).tensors) feeds.set(name, dense(tensor));
    const names = [...parameters.keys()];
    expect(names.length).toBe(mode === 'lora' ? 28 : 28 + 2 * 11 + 2);
    const grads = evaluate(
      names.map((name) => outputs.get(`grad ${name}`)!),
      feeds,
    );
    names.forEach((name, i) => {
      const was = feeds.get(name)!;
      const direction = was.data.map(() => random.normal());
      const along = (step: number): number => {
        feeds.set(name, { shape: was.shape, data: was.data.map((v, at) => v + step * direction[at]!) });
        return evaluate([surrogate], feeds)[0]!.data[0]!;
      };
      const step = 1e-5;
      const numeric = (along(step) - along(-step)) / (2 * step);
      feeds.set(name, was);
      const exact = grads[i]!.data.reduce((sum, g, at) => sum + g * direction[at]!, 0);
      expect(Math.abs(exact - numeric) / (1e-3 + Math.abs(numeric)), name).toBeLessThan(1e-5);
    });
  });
});
