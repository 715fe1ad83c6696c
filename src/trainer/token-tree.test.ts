import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { packSamples, rowsToTokens, type Sample, tokensToRows } from './token-tree.ts';

/** What a position sees, read back from the packed layout by the attention rule alone. */
function visibleIds(
  batch: ReturnType<typeof packSamples>['passes'][number]['batch'],
  flat: number,
): number[] {
  const base = Math.floor(flat / batch.length) * batch.length;
  const i = flat - base;
  const out: number[] = [];
  for (let j = 0; j <= i; j++) if (i < batch.subtreeEnd[base + j]!) out.push(batch.ids[base + j]!);
  return out;
}

function randomSamples(seed: number): Sample[] {
  const random = stream(seed, 'samples');
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(4));
  const prompts = Array.from({ length: 3 }, () => ids(1 + random.int(6)));
  return Array.from({ length: 1 + random.int(20) }, () => ({
    promptIds: random.next() < 0.8 ? prompts[random.int(3)]! : [...prompts[random.int(3)]!, ...ids(2)],
    outputIds: ids(random.int(7)),
  }));
}

describe('packSamples', () => {
  it('shows every sampled token exactly the prefix that it was sampled from, at its depth', () => {
    for (let seed = 0; seed < 200; seed++) {
      const samples = randomSamples(seed);
      const limits = { maxTreeTokens: 14 + (seed % 30), tokensPerPass: 64 + (seed % 3) * 64 };
      const { passes, offsets } = packSamples(samples, limits);
      const seen = new Set<number>();
      for (const { batch, token, row } of passes) {
        token.forEach((number, i) => {
          expect(seen.has(number)).toBe(false);
          seen.add(number);
          const s = offsets.findLastIndex((offset) => offset <= number);
          const t = number - offsets[s]!;
          const sample = samples[s]!;
          const prefix = [...sample.promptIds, ...sample.outputIds.slice(0, t)];
          const hidden = batch.hiddenIndex[row[i]!]!;
          expect(visibleIds(batch, hidden)).toEqual(prefix);
          expect(batch.positions[hidden]).toBe(prefix.length - 1);
          expect(batch.targetId[row[i]!]).toBe(sample.outputIds[t]);
        });
      }
      expect(seen.size).toBe(samples.reduce((n, { outputIds }) => n + outputIds.length, 0));
    }
  });

  it('keeps every tree and pass within its limits', () => {
    for (let seed = 0; seed < 50; seed++) {
      const { passes } = packSamples(randomSamples(seed), { maxTreeTokens: 20, tokensPerPass: 96 });
      for (const { batch } of passes) {
        expect(batch.length).toBeLessThanOrEqual(32);
        expect(batch.trees * batch.length).toBeLessThanOrEqual(96);
      }
    }
  });

  it('stores a shared prompt once and identical samples once', () => {
    const promptIds = [1, 2, 3, 4, 5];
    const samples = [
      { promptIds, outputIds: [6, 7] },
      { promptIds, outputIds: [6, 8] },
      { promptIds, outputIds: [6, 7] },
    ];
    const packed = packSamples(samples, { maxTreeTokens: 64, tokensPerPass: 64 });
    expect(packed.tokensBefore).toBe(18);
    expect(packed.tokensAfter).toBe(6);
    expect(packed.passes[0]!.batch.targetId).toEqual(Int32Array.from([6, 7, 8]));
  });

  it('cuts where least is shared, and keeps samples that share nothing apart', () => {
    const group = (first: number, outputs: number[]) =>
      outputs.map((id) => ({ promptIds: [first, 1, 2, 3, 4, 5, 6, 7], outputIds: [id, 9] }));
    // Filled to the brim, the first tree would take one of the second group along, whose prompt costs 8 again.
    const samples = [...group(1, [1, 2, 3]), ...group(2, [1, 2, 3])];
    const packed = packSamples(samples, { maxTreeTokens: 20, tokensPerPass: 64 });
    expect(packed.tokensAfter).toBe(2 * (8 + 3));
    const { batch } = packSamples(samples, { maxTreeTokens: 512, tokensPerPass: 512 }).passes[0]!;
    expect([batch.trees, batch.length]).toEqual([2, 16]);
  });

  it('batches trees of like size, so that little is padding', () => {
    const sizes = [200, 196, 190, 30, 28, 20, 8];
    const samples = sizes.map((n, i) => ({ promptIds: Array<number>(n).fill(i), outputIds: [1] }));
    const { passes } = packSamples(samples, { maxTreeTokens: 256, tokensPerPass: 4096 });
    expect(passes.map(({ batch }) => [batch.trees, batch.length])).toEqual([
      [3, 200],
      [4, 32],
    ]);
  });

  it('adds the coefficients of tokens that share a row, and gives each its value back', () => {
    const samples = [
      { promptIds: [1], outputIds: [2] },
      { promptIds: [1], outputIds: [2] },
    ];
    const pass = packSamples(samples, { maxTreeTokens: 8, tokensPerPass: 32 }).passes[0]!;
    expect(tokensToRows(pass, Float32Array.from([0.25, 0.5]))).toEqual(Float32Array.from([0.75]));
    const tokens = new Float32Array(2);
    rowsToTokens(pass, Float32Array.from([-1.5]), tokens);
    expect(tokens).toEqual(Float32Array.from([-1.5, -1.5]));
  });

  it('accepts a call without output, and refuses a sample that is too long or has no prompt', () => {
    const limits = { maxTreeTokens: 3, tokensPerPass: 32 };
    expect(packSamples([{ promptIds: [1, 2, 3, 4], outputIds: [] }], limits).passes).toEqual([]);
    expect(() => packSamples([{ promptIds: [1, 2, 3], outputIds: [4, 5] }], limits)).toThrow(/maxTreeTokens/);
    expect(packSamples([{ promptIds: [1, 2, 3], outputIds: [4] }], limits).tokensAfter).toBe(3);
    expect(() => packSamples([{ promptIds: [], outputIds: [4] }], limits)).toThrow(/empty prompt/);
  });

  it('does not depend on the order of the samples but for the numbering', () => {
    const samples = randomSamples(5);
    const limits = { maxTreeTokens: 16, tokensPerPass: 64 };
    const a = packSamples(samples, limits);
    const b = packSamples([...samples].reverse(), limits);
    expect(b.passes.map((p) => p.batch.ids)).toEqual(a.passes.map((p) => p.batch.ids));
  });
});
