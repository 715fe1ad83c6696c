import { expect, it } from 'vitest';
import { wholeOptions } from './whole-options.ts';

it('takes whole numbers, keeps the defaults, and refuses anything else', () => {
  const read = (...args: string[]) => wholeOptions({ kills: 50, seed: 1 }, args);
  expect(read()).toEqual({ kills: 50, seed: 1 });
  expect(read('--kills', '3', '--seed=0')).toEqual({ kills: 3, seed: 0 });
  for (const wrong of ['0', '-1', '2.5', '1e3', 'x', ''])
    expect(() => read(`--kills=${wrong}`)).toThrow('--kills is a whole number from 1 on');
  expect(() => read('--kill', '3')).toThrow('--kill');
});
