import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { argmaxToken, rankOf, sampleToken } from './sample.ts';

const row = (...p: number[]) => Float32Array.from(p, Math.log);

describe('sampleToken', () => {
  it('inverts the distribution function in id order', () => {
    const logprobs = row(0.5, 0, 0.25, 0.25);
    const picks = [0, 0.49, 0.51, 0.74, 0.76, 0.999].map((u) => sampleToken(logprobs, 0, 4, u));
    expect(picks).toEqual([0, 0, 2, 2, 3, 3]);
  });

  it('reads the row at the offset', () => {
    const logprobs = Float32Array.from([...row(1, 0), ...row(0, 1)]);
    expect(sampleToken(logprobs, 0, 2, 0.5)).toBe(0);
    expect(sampleToken(logprobs, 2, 2, 0.5)).toBe(1);
  });

  it('takes the last token with a probability when rounding leaves the sum below the uniform', () => {
    expect(sampleToken(row(0.5, 0.4999, 0), 0, 3, 1 - 2 ** -32)).toBe(1);
  });

  it('refuses a row that is no distribution', () => {
    expect(sampleToken(new Float32Array([Number.NaN, Number.NaN]), 0, 2, 0.3)).toBe(-1);
  });

  it('draws each token as often as its probability says (chi-square, 3 degrees of freedom)', () => {
    const p = [0.1, 0.2, 0.3, 0.4];
    const random = stream(3, 'sample-test');
    const counts = [0, 0, 0, 0];
    const draws = 20_000;
    for (let i = 0; i < draws; i++) counts[sampleToken(row(...p), 0, 4, random.next())]!++;
    const chi2 = counts.reduce((sum, c, i) => sum + (c - draws * p[i]!) ** 2 / (draws * p[i]!), 0);
    expect(chi2).toBeLessThan(16.3); // p = 0.001
  });
});

it('argmax takes the lower id among equals and refuses NaN', () => {
  expect(argmaxToken(row(0.2, 0.4, 0.4), 0, 3)).toBe(1);
  expect(argmaxToken(new Float32Array([0, Number.NaN]), 0, 2)).toBe(-1);
});

it('rank counts tokens at least as likely', () => {
  const logprobs = row(0.1, 0.4, 0.3, 0.2);
  expect([0, 1, 2, 3].map((token) => rankOf(logprobs, 0, 4, token))).toEqual([4, 1, 2, 3]);
});
