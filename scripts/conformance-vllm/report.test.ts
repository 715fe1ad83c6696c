import { describe, expect, it } from 'vitest';
import { difference, type Mismatch } from './mismatch.ts';
import { failures, lastLine, type Results, report } from './report.ts';

const none = { mean: 0, max: 0, tokens: 1 };
const mismatch = (atOne: number, atTemperature: number): Mismatch => ({
  model: 'adapter',
  temperature: 0.7,
  atOne: { ...none, max: atOne },
  atTemperature: { ...none, max: atTemperature },
});
const results = (more: Partial<Results> = {}): Results => ({
  versions: { vllm: '1' },
  arguments: ['--model', 'm'],
  contract: [
    { name: 'health', kind: 'pass', detail: '200' },
    { name: 'base', kind: 'known', detail: 'Breach: 3', reason: 'the build' },
  ],
  mismatch: [
    { server: { dtype: 'float32', logprobs: 'raw' }, found: [mismatch(1e-5, 0.5)] },
    { server: { dtype: 'float32', logprobs: 'processed' }, found: [mismatch(0.5, 1e-5)] },
    { server: { dtype: 'bfloat16', logprobs: 'raw' }, found: [mismatch(0.05, 0.5)] },
  ],
  modes: [],
  training: {
    exitCode: 0,
    seconds: 1,
    recallBefore: 0.25,
    recallAfter: 0.5,
    failed: 0,
    listed: ['vllm-v0', 'vllm-v1'],
    versions: ['vllm-v0', 'vllm-v1'].map((name) => ({ name, toLearner: none, toBase: { ...none, max: 1 } })),
    steps: [],
    problems: [],
  },
  ...more,
});

describe('failures', () => {
  it('are none where each mode agrees in its own column; a known fault is none', () => {
    expect(failures(results())).toEqual([]);
    expect(JSON.parse(lastLine(results()))).toMatchObject({
      contract: { checks: 2, pass: 1, known: 1, breach: 0 },
      training: { published: 1, proved: 1, wrongPolicy: 0, recallAfter: 0.5 },
      failures: 0,
    });
    expect(report(results())).toMatch(/nothing failed/);
  });

  it('are a breach, a difference in float32, no number, and what the training found', () => {
    const server = { dtype: 'float32', logprobs: 'processed' } as const;
    expect(
      failures(
        results({
          contract: [{ name: 'health', kind: 'breach', detail: '503' }],
          mismatch: [{ server, found: [mismatch(1e-5, 0.01), mismatch(1e-5, Number.NaN)] }],
          training: { ...results().training, problems: ['step 1: wrong'] },
        }),
      ),
    ).toEqual([
      'health: 503',
      'processed, adapter, temperature 0.7: sampler and learner differ',
      'processed, adapter, temperature 0.7: sampler and learner differ',
      'step 1: wrong',
    ]);
  });
});

it('the difference of two series: mean and largest; a missing value is no number', () => {
  expect(difference([-1, -2, -4], [-1, -2.5, -3])).toEqual({ mean: 0.5, max: 1, tokens: 3 });
  expect(difference([-1, -2, -3], [Number.NaN, -2, -3]).max).toBeNaN();
  expect(difference([-1, -2], [-1]).max).toBeNaN();
});
