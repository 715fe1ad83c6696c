import { expect, test } from 'vitest';
import { freeMemory, memoryText, memoryWarnings, peakMemory } from './memory-plan.ts';

const estimate = {
  parameters: 1e6,
  adapterParameters: 2e5,
  weights: 16e6,
  adapter: 5e6,
  activations: 376e6,
  serving: 100e6,
  data: 250e6,
  total: 747e6,
};

test('the estimate is told part by part', () => {
  expect(memoryText(estimate)).toBe(
    'about 747 MB: weights 16 MB (1 M parameters), adapter and optimiser 5 MB (200 k parameters), ' +
      'activations 376 MB, serving 100 MB, program and corpus 250 MB',
  );
});

test('more than is free is a warning that names the settings of the learner', () => {
  expect(memoryWarnings(estimate, 747e6, 'onnx')).toEqual([]);
  expect(memoryWarnings(estimate, 500e6, 'onnx').join()).toMatch(
    /747 MB .* 500 MB are free: lower learner.tokensPerPass .*learner.memory.recompute/,
  );
  expect(memoryWarnings(estimate, 500e6, 'torch').join()).toMatch(/learner.gradientCheckpointing/);
});

test('what is free and what was held are bytes of this machine and process', () => {
  expect(freeMemory()).toBeGreaterThan(1e6);
  expect(peakMemory()).toBeGreaterThan(0.9 * process.memoryUsage().rss);
  const before = peakMemory();
  const held = Buffer.alloc(200e6, 1);
  expect(peakMemory()).toBeGreaterThan(before + (held.length > 0 ? 50e6 : 0));
});
