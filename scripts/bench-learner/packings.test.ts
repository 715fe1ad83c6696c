import { expect, it } from 'vitest';
import { stream } from '../../src/base/random.ts';
import type { Sample } from '../../src/trainer/token-tree.ts';
import { PACKINGS, pack } from './packings.ts';

const random = stream(1, 'packings');
const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(50));
const prompt = ids(9);
const samples: Sample[] = Array.from({ length: 20 }, (_, s) => ({
  promptIds: s % 2 ? prompt : ids(1 + random.int(12)),
  outputIds: ids(1 + random.int(8)),
}));

it.each(PACKINGS)('%s: every sampled token once, predicted from its own prefix', (packing) => {
  const packed = pack(samples, packing, { maxTreeTokens: 40, tokensPerPass: 96 });
  const tokens = samples.flatMap(({ promptIds, outputIds }) =>
    outputIds.map((id, t) => ({ id, prefix: [...promptIds, ...outputIds.slice(0, t)] })),
  );
  const seen = new Set<number>();
  for (const { batch, token, row } of packed.passes) {
    expect(batch.ids.length).toBe(batch.trees * batch.length);
    for (const [i, number] of token.entries()) {
      const at = batch.hiddenIndex[row[i]!]!;
      const start = at - (at % batch.length);
      const position = at - start;
      const prefix = Array.from({ length: position + 1 }, (_, j) => j)
        .filter((j) => batch.subtreeEnd[start + j]! > position)
        .map((j) => batch.ids[start + j]!);
      expect(prefix).toEqual(tokens[number]!.prefix);
      expect(batch.positions[at]).toBe(prefix.length - 1);
      expect(batch.targetId[row[i]!]).toBe(tokens[number]!.id);
      expect(seen.has(number)).toBe(false);
      seen.add(number);
    }
  }
  expect(seen.size).toBe(tokens.length);
  if (packing === 'alone') expect(packed.passes).toHaveLength(samples.length);
  if (packing === 'padded') expect(packed.passes.length).toBeLessThan(samples.length);
  expect(packed.tokensAfter < packed.tokensBefore).toBe(packing === 'tree');
});
