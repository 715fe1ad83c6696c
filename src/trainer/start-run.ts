/** Where a run starts: the adapter, the warm start when there is one, and the first published version. */
import { isDeepStrictEqual } from 'node:util';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import type { Config } from '../config/schema.ts';
import type { DecoderConfig } from '../engine/model-config.ts';
import { checkAdapterFits, initAdapter, readAdapter } from '../engine/peft.ts';
import type { LoraSpec } from '../engine/types.ts';
import type { Screen } from '../report/progress.ts';
import type { Progress } from './checkpoint.ts';
import { treeLimits } from './create-learner.ts';
import type { Environment } from './environment.ts';
import type { Learner, LearnerState } from './learner/learner.ts';
import { createOptimizerState } from './optimizer.ts';
import type { Data, Model } from './prepare.ts';
import { type PublishTarget, publish } from './publish.ts';
import { demonstrationSample, warmStart } from './warm-start.ts';

/** The shape of the adapters of a run. */
export function loraSpec({ lora: { start: _, ...spec } }: Pick<Config, 'lora'>): LoraSpec {
  return spec;
}

const shapeOf = ({ targets, ...rest }: LoraSpec) => ({ ...rest, targets: [...targets].sort() });

/**
 * The adapter that the run starts from: the one that `lora.start` names, whose frozen copy is the KL
 * reference; else a fresh one, which is a no-op until it is trained. UserError for a named one that does not
 * fit the model, or has another shape than the configuration says.
 */
export function startState(config: Pick<Config, 'lora' | 'run'>, decoder: DecoderConfig): LearnerState {
  const spec = loraSpec(config);
  const { start } = config.lora;
  if (start === undefined) {
    const adapter = initAdapter(decoder, spec, stream(config.run.seed, 'adapter'));
    return { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) };
  }
  const adapter = readAdapter(start);
  checkAdapterFits(adapter, decoder, start);
  if (!isDeepStrictEqual(shapeOf(adapter.spec), shapeOf(spec)))
    throw new UserError(
      `has r ${adapter.spec.r}, alpha ${adapter.spec.alpha}, rslora ${adapter.spec.rslora} on ${adapter.spec.targets.join(', ')}`,
      start,
      'set lora.r, lora.alpha, lora.rslora and lora.targets to its values',
    );
  return { adapter, reference: adapter, optimizer: createOptimizerState(adapter.tensors) };
}

export interface StartParts {
  config: Config;
  data: Data;
  model: Model;
  environment: Environment;
  learner: Learner;
  target: PublishTarget;
  screen: Screen;
  signal: AbortSignal;
}

/**
 * Step 0: the warm start when there is one, and the first published version. Throws `signal.reason` when the
 * signal fires during the warm start, of which nothing is kept.
 */
export async function startRun(parts: StartParts): Promise<Progress> {
  const { learner, target } = parts;
  if (parts.config.sft) await runWarmStart(parts.config.sft, parts);
  const policy = await publish(target, learner, (await learner.state()).adapter, 0);
  return {
    step: 0,
    policy,
    startAdapter: policy.model,
    cursor: 0,
    best: null,
    skippedInARow: 0,
    alarmsInARow: 0,
    seconds: 0,
  };
}

async function runWarmStart(
  { share, rolloutsPerQuery, epochs, tokensPerStep, learningRate }: NonNullable<Config['sft']>,
  { config, data, model, environment, learner, screen, signal }: StartParts,
): Promise<void> {
  const { seed } = config.run;
  const taught = stream(seed, 'warm-start', 'questions')
    .shuffle(data.train)
    .slice(0, Math.ceil(data.train.length * share));
  const demonstrations = await environment.demonstrate(taught, { rollouts: rolloutsPerQuery, seed });
  const samples = demonstrations
    .flatMap(({ calls }) => calls)
    .map((d) =>
    demonstrationSample(d, model.renderPrompt, (text) => model.tokenizer.encode(text), model.endId),
  );
  const { maxTreeTokens } = config.learner;
  const fitting = samples.filter(
    ({ promptIds, outputIds }) => promptIds.length + outputIds.length <= maxTreeTokens,
  );
  const left = samples.length - fitting.length;
  if (fitting.length === 0)
    throw new UserError(
      `every demonstrated call is longer than ${maxTreeTokens} tokens`,
      'learner.maxTreeTokens',
      'raise it, or shorten the questions',
    );
  if (left > 0)
    screen.print(
      `${left} demonstrated calls are longer than learner.maxTreeTokens (${maxTreeTokens}): left out`,
    );
  const settings = { epochs, tokensPerStep, learningRate, limits: treeLimits(config.learner), seed };
  let bar: ReturnType<Screen['start']> | null = null;
  const { steps, loss } = await warmStart(learner, fitting, settings, (step, total, now) => {
    // After the last update the first checkpoint is near, and keeps it.
    if (step < total) signal.throwIfAborted();
    bar ??= screen.start('warm start', total);
    bar.update(step, `loss ${now.toFixed(3)}`);
  });
  screen.print(
    `warm start: ${fitting.length} calls of ${taught.length} questions, ${steps} updates, loss ${loss.toFixed(3)}`,
  );
}
