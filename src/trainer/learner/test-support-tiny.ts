/** For tests of learners: the committed tiny Qwen3 with its adapter, random passes over it, and what they leave. */
import { loadQwen3Tiny } from '../../../test/vectors/qwen3-tiny.ts';
import type { Random } from '../../base/random.ts';
import { readAdapter } from '../../engine/peft.ts';
import type { TreeBatch } from '../../engine/types.ts';
import { createOptimizerState, type OptimizerConfig } from '../optimizer.ts';
import { packSamples, type Sample } from '../token-tree.ts';
import type { Learner, LearnerOptions } from './learner.ts';

const { folder, adapterFolder } = loadQwen3Tiny();

/** Smooth in the gradient: with a tiny ε an entry near 0 leaves little but its sign, which rounding decides. */
const SMOOTH: OptimizerConfig = { betas: [0.9, 0.95], eps: 1e-2, weightDecay: 0.01, clipNorm: 5 };
const RATE = 0.02;

/** Options for the committed adapter on the committed model. */
export function tinyOptions(optimizer: OptimizerConfig = SMOOTH): LearnerOptions {
  const adapter = readAdapter(adapterFolder);
  const start = { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) };
  return { modelFolder: folder, spec: adapter.spec, optimizer, threads: 1, start };
}

/** One pass of a step: a batch of trees and the coefficients of its rows. */
export interface TinyPass {
  batch: TreeBatch;
  coef: Float32Array;
  entropyCoef: Float32Array;
}

/** Random samples with shared, nested, identical and disjoint prefixes, packed into a few passes. */
export function randomPasses(random: Random): TinyPass[] {
  const ids = (n: number): number[] => Array.from({ length: n }, () => 2 + random.int(94));
  const samples: Sample[] = [];
  for (let group = 0; group < 3; group++) {
    const prompt = ids(1 + random.int(8));
    for (let member = 0; member < 3; member++) {
      const before = member === 2 ? samples.at(-1)! : { promptIds: prompt, outputIds: [] };
      samples.push({
        promptIds: [...before.promptIds, ...before.outputIds],
        outputIds: ids(1 + random.int(7)),
      });
    }
  }
  samples.push(samples[0]!, { promptIds: ids(1), outputIds: ids(1) });
  const { passes } = packSamples(samples, { maxTreeTokens: 24, tokensPerPass: 64 });
  return passes.map(({ batch }) => ({
    batch,
    coef: Float32Array.from(batch.targetId, () => random.normal()),
    entropyCoef: Float32Array.from(batch.targetId, () => 0.1 * random.normal()),
  }));
}

/** Gathers the gradient of some passes and updates once. */
export async function stepOn(
  learner: Learner,
  passes: readonly TinyPass[],
  rate = RATE,
): Promise<{ gradNorm: number; applied: boolean }> {
  for (const { batch, coef, entropyCoef } of passes) await learner.accumulate(batch, coef, entropyCoef, 0.9);
  return learner.update(rate);
}
