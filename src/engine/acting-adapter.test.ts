import { expect, it } from 'vitest';
import { mean, std } from '../base/statistics.ts';
import { actingAdapter } from './acting-adapter.ts';
import { readDecoderConfig } from './model-config.ts';
import { LORA_MODULES } from './peft.ts';

it('has an A as it begins with and a B of the wanted size, the same for the same seed', () => {
  const config = readDecoderConfig('models/tiny');
  const spec = { r: 4, alpha: 8, rslora: false, targets: [...LORA_MODULES] };
  const { tensors } = actingAdapter(config, spec, 0.05, 3, 'x');
  const of = (side: string) =>
    [...tensors].filter(([name]) => name.includes(`.lora_${side}.`)).flatMap(([, { data }]) => [...data]);
  expect(mean(of('B'))).toBeCloseTo(0, 2);
  expect(std(of('B'))).toBeCloseTo(0.05, 2);
  expect(Math.min(...of('A').map(Math.abs))).toBeLessThan(0.001);
  expect([...actingAdapter(config, spec, 0.05, 3, 'x').tensors]).toEqual([...tensors]);
  expect([...actingAdapter(config, spec, 0.05, 4, 'x').tensors]).not.toEqual([...tensors]);
});
