import { describe, expect, it } from 'vitest';
import type { TensorMap } from '../engine/types.ts';
import { adamwStep, createOptimizerState, globalNorm, learningRateAt } from './optimizer.ts';

const tensors = (...values: number[]): TensorMap =>
  new Map([['w', { shape: [values.length], data: Float32Array.from(values) }]]);
const config = { betas: [0.9, 0.95] as const, eps: 1e-8, weightDecay: 0, clipNorm: 1e9 };

describe('adamwStep', () => {
  it('moves by the learning rate in the first step, whatever the size of the gradient', () => {
    const w = tensors(1, -2);
    adamwStep(w, tensors(1e-3, -50), createOptimizerState(w), 0.1, config);
    expect(w.get('w')!.data[0]).toBeCloseTo(0.9, 5);
    expect(w.get('w')!.data[1]).toBeCloseTo(-1.9, 5);
  });

  it('decays weights apart from the gradient', () => {
    const w = tensors(2);
    adamwStep(w, tensors(0), createOptimizerState(w), 0.1, { ...config, weightDecay: 0.5 });
    expect(w.get('w')!.data[0]).toBeCloseTo(1.9, 6);
  });

  it('clips by the global norm over all tensors', () => {
    const g: TensorMap = new Map([
      ['a', { shape: [1], data: Float32Array.from([3]) }],
      ['b', { shape: [1], data: Float32Array.from([4]) }],
    ]);
    expect(globalNorm(g)).toBe(5);
    const w: TensorMap = new Map([...g].map(([n, t]) => [n, { shape: t.shape, data: new Float32Array(1) }]));
    const state = createOptimizerState(w);
    expect(adamwStep(w, g, state, 0.1, { ...config, clipNorm: 2 }).gradNorm).toBe(5);
    expect(state.first.get('a')![0]).toBeCloseTo(0.1 * 1.2, 6);
    expect(state.second.get('a')![0]).toBeCloseTo(0.05 * 1.2 ** 2, 6);
    expect(state.second.get('b')![0]).toBeCloseTo(0.05 * 1.6 ** 2, 6);
  });

  it('a gradient that is not finite changes nothing, the moments and the count included', () => {
    const w = tensors(1, 1);
    const state = createOptimizerState(w);
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY])
      expect(adamwStep(w, tensors(0.1, bad), state, 0.1, config).applied).toBe(false);
    expect([...w.get('w')!.data]).toEqual([1, 1]);
    expect(state).toEqual(createOptimizerState(w));
  });
});

describe('learningRateAt', () => {
  it('warms up linearly from the first step, then follows the schedule', () => {
    const rate = (step: number, schedule: 'constant' | 'linear' | 'cosine') =>
      learningRateAt(step, 10, { learningRate: 1, warmupSteps: 4, schedule });
    expect([0, 1, 2, 3].map((s) => rate(s, 'constant'))).toEqual([0.25, 0.5, 0.75, 1]);
    expect(rate(9, 'constant')).toBe(1);
    expect([4, 7, 10, 11].map((s) => rate(s, 'linear'))).toEqual([1, 0.5, 0, 0]);
    expect(rate(9, 'linear')).toBeCloseTo(1 / 6, 10);
    expect(rate(7, 'cosine')).toBeCloseTo(0.5, 10);
    expect(rate(9, 'cosine')).toBeCloseTo(0.5 - 0.5 * Math.cos(Math.PI / 6), 10);
    expect(rate(4, 'cosine')).toBe(1);
  });
});
