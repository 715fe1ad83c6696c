/**
 * The supervised warm start: a demonstrator that knows the gold plays episodes against the real tools, and
 * the policy learns its calls. Rows of the learner with another coefficient: nothing extra.
 */
import { stream } from '../../base/random.ts';
import type { Demonstration } from '../../env/demonstration.ts';
import type { Message } from '../../env/types.ts';
import type { Learner } from '../learner/learner.ts';
import { learningRateAt } from '../optimizer.ts';
import type { Sample, TreeLimits } from '../token-tree.ts';
import { trainSupervised } from './supervised.ts';

export interface WarmStartConfig {
  epochs: number;
  tokensPerStep: number;
  learningRate: number;
  limits: TreeLimits;
  seed: number;
}

/** Ids of a demonstration: the prompt as every rollout renders it, the answer, the end token. */
export function demonstrationSample(
  { messages, text }: Pick<Demonstration, 'messages' | 'text'>,
  renderPrompt: (messages: Message[]) => number[],
  encode: (text: string) => number[],
  endId: number,
): Sample {
  return { promptIds: renderPrompt(messages), outputIds: [...encode(text), endId] };
}

/** Trains the learner on the samples, then freezes the result as the reference of the run. */
export async function warmStart(
  learner: Learner,
  samples: readonly Sample[],
  config: WarmStartConfig,
  onStep: (step: number, total: number, loss: number) => void,
): Promise<{ steps: number; loss: number }> {
  const rateAt = (step: number, total: number): number =>
    learningRateAt(step, total, {
      learningRate: config.learningRate,
      warmupSteps: Math.ceil(total * 0.05),
      schedule: 'cosine',
    });
  const result = await trainSupervised(
    learner,
    samples,
    config,
    rateAt,
    stream(config.seed, 'warm-start'),
    onStep,
  );
  await learner.freezeReference();
  return result;
}
