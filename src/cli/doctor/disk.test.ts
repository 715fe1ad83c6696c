import { expect, test } from 'vitest';
import { configSchema } from '../../config/schema.ts';
import { readDecoderConfig } from '../../engine/model-config.ts';
import { TINY, tinyModel } from '../../engine/test-support.ts';
import { diskNeeds } from './disk.ts';

test('adapters of every step and the first, checkpoints with both moments and the reference: by hand', () => {
  const decoder = readDecoderConfig(tinyModel());
  const { layers, hiddenSize, heads, headDim } = decoder;
  const adapter = 4 * layers * 3 * (hiddenSize + heads * headDim);
  const needs = (start?: string): number =>
    diskNeeds(
      configSchema.parse({
        run: { name: 'x' },
        model: { path: 'm' },
        data: { corpus: 'c', train: 't', validation: 'v' },
        lora: { r: 3, targets: ['q_proj'], ...(start ? { start } : {}) },
        train: { steps: 10, keep: 2 },
      }),
      decoder,
    );
  expect(TINY.layers).toBe(layers);
  expect(needs()).toBe(11 * adapter + 4 * 3 * adapter);
  expect(needs('runs/a/adapters/a-v3')).toBe(11 * adapter + 4 * 4 * adapter);
});
