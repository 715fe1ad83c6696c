/** How far apart sampler and learner are: log-probabilities of sampled tokens by vLLM, and by our learner. */
import { loadConfig } from '../../src/config/load.ts';
import { actingAdapter } from '../../src/engine/acting-adapter.ts';
import { readDecoderConfig } from '../../src/engine/model-config.ts';
import { LORA_MODULES } from '../../src/engine/peft.ts';
import type { Adapter } from '../../src/engine/types.ts';
import { createEndpoint } from '../../src/rollout/endpoint.ts';
import { createLearner } from '../../src/trainer/create-learner.ts';
import type { Learner, Weights } from '../../src/trainer/learner/learner.ts';
import { createOptimizerState } from '../../src/trainer/optimizer.ts';
import { packSamples, type Sample } from '../../src/trainer/token-tree.ts';

export interface Difference {
  /** Nats, over all tokens. */
  mean: number;
  max: number;
  tokens: number;
}

/** `sampled` against the learner at temperature 1, and against it at the sampling temperature. */
export interface Mismatch {
  model: 'base' | 'adapter';
  temperature: number;
  atOne: Difference;
  atTemperature: Difference;
}

/** Natural log-probabilities of all samples' output tokens, in order. */
export async function learnerLogprobs(
  learner: Learner,
  samples: readonly Sample[],
  weights: Weights,
  temperature: number,
): Promise<Float64Array> {
  const { passes, offsets } = packSamples([...samples], { maxTreeTokens: 512, tokensPerPass: 4096 });
  const found = new Float64Array(offsets.at(-1)!).fill(Number.NaN);
  for (const { batch, token, row } of passes) {
    const { logprobs } = await learner.rowValues(batch, weights, temperature);
    for (const [i, at] of token.entries()) found[at] = logprobs[row[i]!]!;
  }
  return found;
}

export function difference(a: ArrayLike<number>, b: ArrayLike<number>): Difference {
  const gaps = Array.from(a, (value, i) => Math.abs(value - b[i]!));
  const sum = gaps.reduce((total, gap) => total + gap, 0);
  // NaN where a value is missing: then no bound holds
  return {
    mean: sum / gaps.length,
    max: gaps.reduce((m, gap) => (gap > m || Number.isNaN(gap) ? gap : m), 0),
    tokens: gaps.length,
  };
}

/** An adapter of the demo's shape that moves log-probabilities by about a nat, as some training does. */
export function trainedAdapter(modelFolder: string): Adapter {
  const spec = { r: 16, alpha: 32, rslora: false, targets: [...LORA_MODULES] };
  return actingAdapter(readDecoderConfig(modelFolder), spec, 0.02, 1, 'conformance-adapter');
}

export const openLearner = (modelFolder: string, adapter: Adapter): Promise<Learner> =>
  createLearner(
    loadConfig('configs/quickstart.yaml', { set: [] }).learner,
    {
      modelFolder,
      spec: adapter.spec,
      optimizer: { betas: [0.9, 0.99], eps: 1e-8, weightDecay: 0, clipNorm: 1 },
      threads: 1,
      start: { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) },
    },
    () => {},
  );

/**
 * Samples every prompt by the base model, then by an adapter, at each temperature, and compares. The adapter is
 * loaded between the two: vLLM's CPU build answers wrongly for the base model beside adapters.
 */
export async function measureMismatch(
  url: string,
  models: { base: string; adapter: string },
  loadAdapter: () => Promise<void>,
  learner: Learner,
  prompts: number[][],
  temperatures: readonly number[],
): Promise<Mismatch[]> {
  const endpoint = createEndpoint({ baseUrl: url, deadlineMs: 600_000, maxConcurrent: 32 });
  const found: Mismatch[] = [];
  for (const model of ['base', 'adapter'] as const) {
    if (model === 'adapter') await loadAdapter();
    for (const temperature of temperatures) {
      const samples = await Promise.all(
        prompts.map((promptIds, i) =>
          endpoint.complete({
            model: models[model],
            promptIds,
            maxTokens: 48,
            temperature,
            seed: 100 + i,
            stopTokenIds: [],
          }),
        ),
      );
      const sampled = samples.flatMap(({ logprobs }) => logprobs);
      const weights = model === 'base' ? 'base' : 'policy';
      const [atOne, atTemperature] = [
        difference(sampled, await learnerLogprobs(learner, samples, weights, 1)),
        difference(sampled, await learnerLogprobs(learner, samples, weights, temperature)),
      ];
      found.push({ model, temperature, atOne, atTemperature });
    }
  }
  return found;
}
