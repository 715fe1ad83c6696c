import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freeMemory, heldMemory, heldText, memoryText, memoryWarnings, peakMemory } from './memory-plan.ts';

const estimate = {
  parameters: 1e6,
  adapterParameters: 2e5,
  weights: 16e6,
  adapter: 5e6,
  activations: 246e6,
  serving: 100e6,
  data: 250e6,
  slack: 130e6,
  total: 747e6,
};

test('the estimate is told part by part', () => {
  expect(memoryText(estimate)).toBe(
    'about 747 MB: weights 16 MB (1 M parameters), adapter and optimiser 5 MB (200 k parameters), ' +
      'activations 246 MB, serving 100 MB, program and corpus 250 MB, slack 130 MB',
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

test('a resumed run keeps the larger peak of its earlier summary', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'lexpo-memory-')), 'summary.json');
  expect(heldMemory(estimate, path).peak).toBeLessThan(1e12);
  for (const [text, peak] of [
    ['{"steps": 4, "memory": {"planned": 1, "peak": 9000000000000}}', 9e12],
    ['{"memory": {"planned": 1, "peak": 5}}', peakMemory()],
    ['{"memory": ', peakMemory()],
    ['{"steps": 4}', peakMemory()],
  ] as const) {
    writeFileSync(path, text);
    const held = heldMemory(estimate, path);
    expect(held.planned).toBe(747e6);
    // The system counts pages per processor and adds them up late: a second reading may be a little less.
    expect(held.peak).toBeGreaterThanOrEqual(peak * 0.95);
    expect(held.peak).toBeLessThan(peak * 2);
    expect(heldMemory(estimate, null).peak).toBeLessThan(1e12);
  }
});

test("the end says when the learner's processes are not in the figure", () => {
  const held = { planned: 747e6, peak: 600e6 };
  expect(heldText(held, 'onnx')).toBe('peak memory 600 MB, where about 747 MB were expected');
  expect(heldText(held, 'torch')).toMatch(/^peak memory 600 MB of this process alone; .* about 747 MB/);
});
