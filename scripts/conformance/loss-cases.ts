/** The losses that lexpo and TRL both know, as settings of a policy update. */
import type { LossConfig } from '../../src/trainer/loss.ts';
import type { OptimizerConfig } from '../../src/trainer/optimizer.ts';
import type { UpdateSettings } from '../python/trl-config.ts';

/** `microBatches`: TRL takes the step's samples in so many parts. */
export interface LossCase {
  name: string;
  settings: UpdateSettings;
  microBatches: number;
}

const PLAIN: LossConfig = {
  kind: 'grpo',
  clipLow: 0.2,
  clipHigh: 0.2,
  aggregation: 'token',
  constantLength: 16,
  kl: { coef: 0, estimator: 'k3' },
  entropy: 0,
  importance: { level: 'sequence', mode: 'none', cap: 3 },
};
export const OPTIMIZER: OptimizerConfig = { betas: [0.9, 0.99], eps: 1e-8, weightDecay: 0.01, clipNorm: 1e9 };

function lossCase(
  name: string,
  loss: Partial<LossConfig>,
  change: Partial<UpdateSettings & { microBatches: number; clipNorm: number }> = {},
): LossCase {
  const { microBatches = 1, clipNorm = 1e9, ...rest } = change;
  const settings = {
    loss: { ...PLAIN, ...loss },
    optimizer: { ...OPTIMIZER, clipNorm },
    temperature: 1,
    epochs: 1,
    learningRate: 0.005,
    ...rest,
  };
  return { name, settings, microBatches };
}

/** Ten steps of this leave the policy near the sampler. */
const SLOW = 2e-4;
const KL = { coef: 0.1, estimator: 'k3' } as const;
const TIGHT = { clipLow: 0.05, clipHigh: 0.1 };

/** The loss with everything at once: two epochs, clip-higher, KL, correction, clipping, a temperature. */
export const FULL_CASE = lossCase(
  'dapo, clip-higher, KL, sampler correction, 2 epochs, norm clipped, temperature 0.7',
  { ...TIGHT, kl: KL, importance: { level: 'token', mode: 'truncate', cap: 1.2 } },
  { epochs: 2, clipNorm: 0.05, temperature: 0.7, microBatches: 4 },
);

export const LOSS_CASES: LossCase[] = [
  lossCase('grpo', { aggregation: 'sequence' }),
  lossCase('grpo, KL', { aggregation: 'sequence', kl: KL }),
  lossCase('dr_grpo', { aggregation: 'constant' }),
  lossCase('dapo', {}),
  lossCase('dapo, KL, in 4 micro-batches', { kl: KL }, { microBatches: 4 }),
  lossCase('dapo, entropy bonus', { entropy: 0.05 }),
  lossCase('dapo, clip-higher, 2 epochs', TIGHT, { epochs: 2 }),
  lossCase('grpo, clip-higher, KL, 2 epochs', { ...TIGHT, aggregation: 'sequence', kl: KL }, { epochs: 2 }),
  lossCase(
    'gspo, 2 epochs',
    { kind: 'gspo', aggregation: 'sequence', clipLow: 3e-3, clipHigh: 4e-3 },
    { epochs: 2 },
  ),
  lossCase('cispo, 2 epochs', { kind: 'cispo', clipHigh: 0.05 }, { epochs: 2 }),
  lossCase('dapo, correction by token, truncated', {
    importance: { level: 'token', mode: 'truncate', cap: 1.2 },
  }),
  lossCase('dapo, correction by sequence, truncated', {
    importance: { level: 'sequence', mode: 'truncate', cap: 1.2 },
  }),
  // A masked token leaves our denominators but not TRL's. Under a constant one that is no difference while some
  // token of each sample stays; the second has nothing to mask while the policy moves little.
  lossCase(
    'dr_grpo, correction by token, masked',
    { aggregation: 'constant', importance: { level: 'token', mode: 'mask', cap: 1.2 } },
    { learningRate: SLOW },
  ),
  lossCase(
    'dapo, correction by sequence, masked beyond 1000',
    { importance: { level: 'sequence', mode: 'mask', cap: 1000 } },
    { learningRate: SLOW },
  ),
  lossCase('dapo, gradient norm clipped', {}, { clipNorm: 0.02 }),
  lossCase('dapo, temperature 0.7', {}, { temperature: 0.7 }),
  FULL_CASE,
];
