/** The token tree against one sample at a time, on the tiny Qwen3: a step's loss, statistics and gradients. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import type { TreeBatch } from '../engine/types.ts';
import type { LossConfig } from './loss.ts';
import { updatePolicy } from './policy-update.ts';
import {
  callsOf,
  FAMILIES,
  familyOf,
  gradientGap,
  openTiny,
  recordingLearner,
  repadded,
  type Tiny,
  updatesAlone,
} from './test-support-single.ts';

let tiny: Tiny;
beforeAll(async () => {
  tiny = await openTiny();
});
afterAll(async () => {
  await tiny.forward.release();
  await tiny.backward.release();
});

const KINDS = ['grpo', 'gspo', 'cispo', 'reinforce'] as const;
const AGGREGATIONS = ['token', 'sequence', 'constant'] as const;
const ESTIMATORS = ['k1', 'k2', 'k3'] as const;
const IMPORTANCE = [
  { level: 'sequence', mode: 'mask', cap: 1.5 },
  { level: 'sequence', mode: 'truncate', cap: 1.1 },
  { level: 'token', mode: 'mask', cap: 1.2 },
  { level: 'token', mode: 'truncate', cap: 1.1 },
  { level: 'token', mode: 'none', cap: 3 },
] as const;

/** Every kind with every aggregation; the rest takes turns, so that each value meets each family. */
const CASES = KINDS.flatMap((kind) => AGGREGATIONS.map((aggregation) => ({ kind, aggregation }))).flatMap(
  (pair, i) =>
    FAMILIES.map((family, f) => {
      const turn = 5 * i + f;
      const importance = IMPORTANCE[pair.kind === 'gspo' ? turn % 2 : turn % 5]!;
      const loss: LossConfig = {
        ...pair,
        importance,
        clipLow: 0.1,
        clipHigh: turn % 2 ? 0.1 : 0.25,
        constantLength: 8,
        kl: { coef: turn % 4 === 3 ? 0 : 0.1, estimator: ESTIMATORS[turn % 3]! },
        entropy: turn % 3 === 2 ? 0 : 0.05,
      };
      return { family, loss, temperature: turn % 2 ? 0.7 : 1, seed: turn };
    }),
);

/** One pass, mostly; one pass a tree; several trees a pass. */
const LIMITS = [
  { maxTreeTokens: 1024, tokensPerPass: 4096 },
  { maxTreeTokens: 48, tokensPerPass: 32 },
  { maxTreeTokens: 44, tokensPerPass: 1024 },
];

async function example({ family, loss, temperature, seed }: (typeof CASES)[number]) {
  const random = stream(seed, family);
  const calls = await callsOf(tiny, familyOf(family, random), temperature, random);
  return { random, calls, alone: await updatesAlone(tiny, calls, loss, temperature) };
}

describe('a packed step equals one sample at a time', () => {
  const figures = { clipped: 0, masked: 0 };
  const passes = LIMITS.map(() => 0);
  it.each(CASES)('$loss.kind, $loss.aggregation, $family prefixes', async (test) => {
    const { loss, temperature } = test;
    const { random, calls, alone } = await example(test);
    const [first, second] = alone;
    figures.clipped += second!.stats.clipFraction;
    figures.masked += first!.stats.maskedFraction;
    const { ratioMean, clipFraction } = second!.stats;
    const statistics = { ...first!.stats, loss: first!.loss, ratioMean, clipFraction };
    for (const [i, limits] of LIMITS.entries()) {
      const learner = recordingLearner(tiny, (batch) => (i === 1 ? batch : repadded(batch, 3 + i)));
      const order = i === 0 ? calls : random.shuffle(calls);
      const stats = await updatePolicy(learner, order, () => 1, { loss, temperature, epochs: 2, limits });
      passes[i]! += learner.passes;
      for (const [name, want] of Object.entries(statistics))
        expect(Math.abs(stats[name as 'loss'] - want), name).toBeLessThan(1e-5 * Math.max(1, Math.abs(want)));
      expect(learner.gradients).toHaveLength(2);
      for (const [e, gradients] of learner.gradients.entries())
        expect(gradientGap(gradients, alone[e]!.gradients), `epoch ${e}, limits ${i}`).toBeLessThan(1e-5);
    }
  });

  it('where clip and mask have really acted', () => {
    expect(figures.clipped).toBeGreaterThan(1);
    expect(figures.masked).toBeGreaterThan(1);
    // And where steps in one pass were held against steps in many.
    expect(passes[0]).toBeLessThan(2.2 * CASES.length);
    expect(passes[1]).toBeGreaterThan(3 * CASES.length);
  });
});

describe('the comparison notices', () => {
  const faults: Record<string, (batch: TreeBatch) => TreeBatch> = {
    'a mask that shows all that came before': (batch) => ({
      ...batch,
      subtreeEnd: batch.subtreeEnd.map(() => batch.length),
    }),
    'a mask that hides one position from its last descendant': (batch) => ({
      ...batch,
      subtreeEnd: batch.subtreeEnd.map((end, i) => (i === 0 ? end - 1 : end)),
    }),
    'positions that count the layout, not the depth': (batch) => ({
      ...batch,
      positions: batch.positions.map((_, i) => i % batch.length),
    }),
    'a target that is off by one row': (batch) => ({
      ...batch,
      targetId: batch.targetId.map((_, r) => batch.targetId[(r + 1) % batch.targetId.length]!),
    }),
    'rows read from the position after theirs': (batch) => ({
      ...batch,
      hiddenIndex: batch.hiddenIndex.map((at) => at + 1),
    }),
  };
  it.each(Object.keys(faults))('%s', async (name) => {
    const test = CASES.find(({ family, loss }) => family === 'nested' && loss.kind === 'grpo')!;
    const { calls, alone } = await example(test);
    const gapWith = async (change?: (batch: TreeBatch) => TreeBatch): Promise<number> => {
      const learner = recordingLearner(tiny, change);
      const { loss, temperature } = test;
      await updatePolicy(learner, calls, () => 1, { loss, temperature, epochs: 2, limits: LIMITS[0]! });
      return gradientGap(learner.gradients[0]!, alone[0]!.gradients);
    };
    expect(await gapWith()).toBeLessThan(1e-5);
    expect(await gapWith(faults[name])).toBeGreaterThan(1e-3);
  });
});
