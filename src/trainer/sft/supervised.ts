/**
 * Supervised training of an adapter: causal cross-entropy on the targets, which is the learner's rows with
 * the coefficient −1 / (target tokens of the batch). Prompts carry no loss.
 */
import { UserError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { Learner } from '../learner/learner.ts';
import { packSamples, type Sample, type TreeLimits, tokensToRows } from '../token-tree.ts';

export interface SupervisedConfig {
  epochs: number;
  /** Input tokens of one update, before prefixes are shared. */
  tokensPerStep: number;
  limits: TreeLimits;
}

/** Batches of whole samples in the order given, each up to `tokensPerStep` tokens and at least one sample. */
export function batchSamples(samples: readonly Sample[], tokensPerStep: number): Sample[][] {
  const batches: Sample[][] = [];
  let tokens = 0;
  for (const sample of samples) {
    const length = sample.promptIds.length + sample.outputIds.length - 1;
    if (batches.length === 0 || tokens + length > tokensPerStep) {
      batches.push([]);
      tokens = 0;
    }
    batches.at(-1)!.push(sample);
    tokens += length;
  }
  return batches;
}

/** Updates in a row whose gradient is not finite that end the training. */
const MAX_SKIPPED = 3;

/**
 * Trains for `epochs` passes (a fraction stops within a pass) over the samples, shuffled anew each pass.
 *
 * @param onStep called after each update with the mean loss (nats a target token) before it; what it throws
 *   ends the training.
 * @throws UserError after three updates in a row whose gradient is not finite; a single one is left out.
 */
export async function trainSupervised(
  learner: Learner,
  samples: readonly Sample[],
  config: SupervisedConfig,
  rateAt: (step: number, total: number) => number,
  random: Random,
  onStep: (step: number, total: number, loss: number) => void,
): Promise<{ steps: number; loss: number }> {
  const plan: Sample[][] = [];
  for (let left = config.epochs; left > 0; left--) {
    const batches = batchSamples(random.shuffle(samples), config.tokensPerStep);
    plan.push(...batches.slice(0, Math.ceil(batches.length * Math.min(1, left))));
  }
  let loss = 0;
  let skippedInARow = 0;
  for (const [step, batch] of plan.entries()) {
    const packed = packSamples(batch, config.limits);
    const tokens = packed.offsets[packed.offsets.length - 1]!;
    const coef = new Float32Array(tokens).fill(-1 / tokens);
    let sum = 0;
    for (const pass of packed.passes) {
      const rowCoef = tokensToRows(pass, coef);
      const rows = await learner.accumulate(pass.batch, rowCoef, new Float32Array(rowCoef.length), 1);
      for (let r = 0; r < rowCoef.length; r++) sum += rowCoef[r]! * rows.logprobs[r]!;
    }
    loss = sum;
    const { applied } = await learner.update(rateAt(step, plan.length));
    skippedInARow = applied ? 0 : skippedInARow + 1;
    if (skippedInARow === MAX_SKIPPED)
      throw new UserError(
        `${MAX_SKIPPED} updates in a row had a gradient that is not finite`,
        `warm start, update ${step + 1}`,
        'lower sft.learningRate',
      );
    onStep(step + 1, plan.length, loss);
  }
  return { steps: plan.length, loss };
}
