import { describe, expect, it } from 'vitest';
import { type Contestant, figures } from './report.ts';

/** One draw of 1000 tokens a round, in so many seconds, with half of it processor time. */
const contestant = (name: string, seconds: number[], batch: number | null = null): Contestant => ({
  name,
  batch,
  draw: () => Promise.reject(new Error('not drawn')),
  drawn: seconds.map((s) => ({ seconds: s, cpuSeconds: name === 'vllm' ? null : s / 2, tokens: 1000 })),
});

describe('figures', () => {
  it('compare round by round with the batch that is fastest by its median', () => {
    const ours = contestant('lexpo', [1, 10, 2]);
    const found = figures([
      ours,
      contestant('lexpo, adapter', [2, 20, 4]),
      contestant('vllm', [2, 10, 8]),
      contestant('generate, 16', [0.5, 100, 9], 16),
      contestant('generate, 64', [4, 5, 6], 64),
    ]);
    expect(found).toEqual({
      lexpo: 500,
      lexpoAdapter: 250,
      generate: 200,
      generateBatch: 64,
      vllm: 125,
      // 4 / 1, 5 / 10, 6 / 2
      ratioToGenerate: 3,
      ratioToGenerateAdapter: 1.5,
      cpuRatioToGenerate: 3,
      cpuRatioToGenerateAdapter: 1.5,
      // 2 / 1, 10 / 10, 8 / 2
      ratioToVllm: 2,
    });
  });

  it('are null where there is nobody to compare with', () => {
    const found = figures([contestant('lexpo', [1]), contestant('lexpo, adapter', [1])]);
    expect(found).toMatchObject({ lexpo: 1000, generate: null, ratioToGenerate: null, ratioToVllm: null });
  });
});
