/** From `learner` in the configuration to a learner. */
import type { Config } from '../config/schema.ts';
import { createOnnxLearner, createTfjsLearner } from './learner/engine-learner.ts';
import type { Learner, LearnerOptions } from './learner/learner.ts';
import { torchRanks } from './learner/torch-launch.ts';
import { createTorchLearner } from './learner/torch-learner.ts';
import { PROOF_TOLERANCE } from './publish.ts';
import type { TreeLimits } from './token-tree.ts';

/**
 * Opens the learner. `say` gets the lines that it has for the user while it trains. UserError for whatever
 * keeps it from starting; nothing has been trained then.
 */
export async function createLearner(
  settings: Config['learner'],
  options: LearnerOptions,
  say: (line: string) => void,
): Promise<Learner> {
  switch (settings.kind) {
    case 'onnx':
      return createOnnxLearner({ ...options, memory: settings.memory }, say);
    case 'tfjs':
      return createTfjsLearner({ ...options, memory: settings.memory }, say);
    case 'torch':
      return createTorchLearner(options, settings, say);
  }
}

/** Nats. Half precision rounds every activation: 0.08 was measured between bfloat16 and float32 on the demo's model. */
export const HALF_TOLERANCE = 0.25;

/** How far a published policy's log-probabilities may lie from the learner's, in nats. */
export const proofTolerance = (settings: Config['learner']): number =>
  settings.kind === 'torch' && settings.dtype === 'bfloat16' ? HALF_TOLERANCE : PROOF_TOLERANCE;

/** The packing that the learner wants: a pass is dealt out over all processes, and each may hold its share. */
export function treeLimits(settings: Config['learner']): TreeLimits {
  const { maxTreeTokens, tokensPerPass } = settings;
  const ranks = settings.kind === 'torch' ? torchRanks(settings) : 1;
  return { maxTreeTokens, tokensPerPass: tokensPerPass * ranks };
}
