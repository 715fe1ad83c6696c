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
import type { Environment } from './environment.ts';
import type { Learner, LearnerState } from './learner/learner.ts';
import { createOptimizerState } from './optimizer.ts';
import type { Data, Model } from './prepare.ts';
import { type PublishTarget, publish } from './publish.ts';
import { runWarmStart } from './sft/run-warm-start.ts';

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
