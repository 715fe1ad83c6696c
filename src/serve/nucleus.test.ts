import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { nucleus } from './nucleus.ts';

const row = (...p: number[]) => Float32Array.from(p, Math.log);
const probabilities = (logprobs: Float32Array) => [...logprobs].map((x) => Number(Math.exp(x).toFixed(6)));

describe('nucleus', () => {
  const p = row(0.1, 0.4, 0.2, 0.3);

  it('keeps the fewest tokens that hold the share, renormalised: by hand', () => {
    expect(probabilities(nucleus(p, 0, 4, 0.39, 0))).toEqual([0, 1, 0, 0]);
    expect(probabilities(nucleus(p, 0, 4, 0.5, 0))).toEqual([0, 0.571429, 0, 0.428571]);
    expect(probabilities(nucleus(p, 0, 4, 0.79, 0))).toEqual([0, 0.444444, 0.222222, 0.333333]);
    expect(probabilities(nucleus(p, 0, 4, 0.95, 0))).toEqual([0.1, 0.4, 0.2, 0.3]);
    expect(probabilities(nucleus(p, 0, 4, 1e-9, 0))).toEqual([0, 1, 0, 0]);
  });

  it('keeps the k most likely; top-p then sees only those', () => {
    expect(probabilities(nucleus(p, 0, 4, 1, 2))).toEqual([0, 0.571429, 0, 0.428571]);
    // 0.4 / 0.7 is above 0.56, where 0.4 alone is not
    expect(probabilities(nucleus(p, 0, 4, 0.56, 2))).toEqual([0, 1, 0, 0]);
    expect(probabilities(nucleus(p, 0, 4, 1, 400))).toEqual([0.1, 0.4, 0.2, 0.3]);
  });

  it('keeps what is as likely as the last one kept', () => {
    const even = row(0.25, 0.25, 0.25, 0.25);
    expect(probabilities(nucleus(even, 0, 4, 0.3, 0))).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect(probabilities(nucleus(even, 0, 4, 1, 1))).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  it('reads the row at its offset and leaves it as it is', () => {
    const two = Float32Array.from([...row(0.9, 0.1), ...row(0.2, 0.8)]);
    expect(probabilities(nucleus(two, 2, 2, 0.5, 0))).toEqual([0, 1]);
    expect(two).toEqual(Float32Array.from([...row(0.9, 0.1), ...row(0.2, 0.8)]));
  });

  it('of random rows: a distribution, the order of tokens kept, the share held and no token too many', () => {
    const random = stream(11, 'nucleus');
    for (let n = 0; n < 200; n++) {
      const size = 2 + random.int(60);
      const weights = Array.from({ length: size }, () => Math.exp(6 * random.next()));
      const total = weights.reduce((a, b) => a + b);
      const topP = 0.05 + 0.95 * random.next();
      const topK = random.int(size);
      const cut = nucleus(row(...weights.map((w) => w / total)), 0, size, topP, topK);
      const kept = [...cut.keys()].filter((i) => cut[i] !== Number.NEGATIVE_INFINITY);
      const mass = kept.reduce((sum, i) => sum + Math.exp(cut[i]!), 0);
      expect(mass).toBeCloseTo(1, 5);
      if (topK > 0) expect(kept.length).toBeLessThanOrEqual(topK);
      const outside = weights.filter((_, i) => !kept.includes(i));
      const least = Math.min(...kept.map((i) => weights[i]!));
      expect(Math.max(0, ...outside)).toBeLessThan(least);
      const among = [...weights].sort((a, b) => b - a).slice(0, topK || size);
      const share = (ids: number[]) =>
        ids.reduce((sum, i) => sum + weights[i]!, 0) / among.reduce((a, b) => a + b);
      expect(share(kept)).toBeGreaterThan(topP - 1e-6);
      expect(share(kept.filter((i) => weights[i] !== least))).toBeLessThan(topP + 1e-6);
    }
  });

  it('a row that is no distribution stays one that is refused', () => {
    expect(nucleus(new Float32Array([0, Number.NaN]), 0, 2, 0.5, 1)).toEqual(
      new Float32Array([0, Number.NaN]),
    );
  });
});
