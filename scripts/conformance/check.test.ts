import { expect, it } from 'vitest';
import { markdownTable, passes, textTable } from './check.ts';

it('fails what is above its tolerance, and what is no number', () => {
  const check = (error: number) => ({ check: 'x', error, tolerance: 1e-5 });
  expect([1e-5, 1.1e-5, Number.NaN, Infinity].map((error) => passes(check(error)))).toEqual([
    true,
    false,
    false,
    false,
  ]);
  const area = { title: 'Area', checks: [check(2e-5), check(Number.NaN), { ...check(0), check: 'a|b' }] };
  expect(textTable(area)).toMatch(
    /x +2\.0e-5 +1\.0e-5 +FAIL\nx +no number +1\.0e-5 +FAIL\na\|b +0 +1\.0e-5 +ok/,
  );
  expect(markdownTable(area)).toContain('| a\\|b | 0 | 1.0e-5 | ok |');
});
