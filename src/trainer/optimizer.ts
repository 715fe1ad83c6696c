/**
 * AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2) with global-norm clipping, over named
 * f32 tensors. Sums are formed in the order of the map, so equal inputs give equal bytes.
 *
 *   m ← β1 m + (1−β1) g      v ← β2 v + (1−β2) g²
 *   θ ← θ − lr · (m̂ / (√v̂ + ε) + λ θ)      m̂ = m/(1−β1^t), v̂ = v/(1−β2^t)
 */
import type { TensorMap } from '../engine/types.ts';

export interface OptimizerConfig {
  betas: readonly [number, number];
  eps: number;
  weightDecay: number;
  /** Gradients are scaled down to this global L2 norm. */
  clipNorm: number;
}

/** Moments by tensor name, and the number of updates so far. */
export interface OptimizerState {
  step: number;
  first: Map<string, Float32Array>;
  second: Map<string, Float32Array>;
}

export function createOptimizerState(parameters: TensorMap): OptimizerState {
  const zeros = (): Map<string, Float32Array> =>
    new Map([...parameters].map(([name, { data }]) => [name, new Float32Array(data.length)]));
  return { step: 0, first: zeros(), second: zeros() };
}

/** L2 norm over all tensors; not finite when any gradient is not. */
export function globalNorm(gradients: TensorMap): number {
  let sum = 0;
  for (const { data } of gradients.values()) {
    for (let i = 0; i < data.length; i++) sum += data[i]! * data[i]!;
  }
  return Math.sqrt(sum);
}

/**
 * One update in place. A non-finite gradient norm changes nothing, the state included.
 *
 * @returns the norm before clipping, and whether the update was applied.
 */
export function adamwStep(
  parameters: TensorMap,
  gradients: TensorMap,
  state: OptimizerState,
  learningRate: number,
  config: OptimizerConfig,
): { gradNorm: number; applied: boolean } {
  const gradNorm = globalNorm(gradients);
  if (!Number.isFinite(gradNorm)) return { gradNorm, applied: false };
  const scale = gradNorm > config.clipNorm ? config.clipNorm / gradNorm : 1;
  const [beta1, beta2] = config.betas;
  state.step += 1;
  const correct1 = 1 - beta1 ** state.step;
  const correct2 = 1 - beta2 ** state.step;
  for (const [name, { data: theta }] of parameters) {
    const g = gradients.get(name)!.data;
    const m = state.first.get(name)!;
    const v = state.second.get(name)!;
    for (let i = 0; i < theta.length; i++) {
      const gi = g[i]! * scale;
      m[i] = beta1 * m[i]! + (1 - beta1) * gi;
      v[i] = beta2 * v[i]! + (1 - beta2) * gi * gi;
      const update = m[i]! / correct1 / (Math.sqrt(v[i]! / correct2) + config.eps);
      theta[i] = theta[i]! - learningRate * (update + config.weightDecay * theta[i]!);
    }
  }
  return { gradNorm, applied: true };
}

export interface Schedule {
  learningRate: number;
  warmupSteps: number;
  schedule: 'constant' | 'linear' | 'cosine';
}

/** Learning rate of update `step` (from 0) of `total`: linear warm-up, then the schedule down to 0 at `total`. */
export function learningRateAt(step: number, total: number, config: Schedule): number {
  if (step < config.warmupSteps) return (config.learningRate * (step + 1)) / config.warmupSteps;
  if (config.schedule === 'constant') return config.learningRate;
  const progress = Math.min(1, (step - config.warmupSteps) / Math.max(1, total - config.warmupSteps));
  return config.schedule === 'linear'
    ? config.learningRate * (1 - progress)
    : config.learningRate * 0.5 * (1 + Math.cos(Math.PI * progress));
}
