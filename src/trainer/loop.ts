/**
 * The loop, one arrow after the other:
 *
 *   sample → score → advantage → pack → learn → publish, proved → next step
 *
 * with an evaluation at step 0, every N steps and at the end, the best adapter by held-out metric, and an
 * atomic checkpoint. With `train.maxStaleness` above 0 later steps are sampled meanwhile (`ahead.ts`). No replay.
 */
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { mean } from '../base/statistics.ts';
import type { Config } from '../config/schema.ts';
import type { Query } from '../env/types.ts';
import { evaluatePolicy, metricOf, type PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { roundReturns } from '../reward/ledger.ts';
import type { RolloutPool } from '../rollout/pool/pool.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { type Ahead, dropStale, nextEarlier, type Staleness, sampleAhead } from './ahead.ts';
import type { Checkpoint, Progress } from './checkpoint.ts';
import { treeLimits } from './create-learner.ts';
import { assignCredit, type CreditConfig } from './credit.ts';
import type { Learner } from './learner/learner.ts';
import { type MalrReward, rewardConfig } from './malr-environment.ts';
import { limitsUnder, limitsWhenStale, mismatchAlarms } from './mismatch.ts';
import { learningRateAt } from './optimizer.ts';
import { type UpdateStats, updatePolicy } from './policy-update.ts';
import { greedySampling } from './prepare.ts';
import { type PublishTarget, publish } from './publish.ts';
import { type SampledStep, sampleStep } from './sample-step.ts';

/** What a step leaves for the record. Seconds by phase. */
export interface StepOutcome {
  step: number;
  sampled: SampledStep;
  dropped: Record<string, number>;
  /** Null when on-policy. */
  staleness: Staleness | null;
  /** Null when no group had anything to teach. */
  update: UpdateStats | null;
  learningRate: number;
  /** What of sampler and learner is too far apart; empty when all is well. */
  alarms: string[];
  /** Steps in a row with an alarm, this one included. */
  alarmsInARow: number;
  /** `sample`: that the learner waited for samples. */
  seconds: { sample: number; learn: number; publish: number };
}

export interface LoopParts {
  config: Config;
  /** Of the evaluations, which are rolled out here. */
  context: RolloutContext;
  /** Rolls out the groups of the steps. */
  pool: RolloutPool;
  learner: Learner;
  target: PublishTarget;
  train: Query[];
  validation: Query[];
  signal: AbortSignal;
  onStep(outcome: StepOutcome): Promise<void>;
  onEvaluation(step: number, evaluation: PolicyEvaluation): Promise<void>;
  /** Keeps the checkpoint; called after what the step left has been written. */
  keep(checkpoint: Checkpoint): Promise<void>;
}

/**
 * Trains from `progress` to `config.train.steps`. When the signal fires it ends after the step, or the
 * evaluation, under way, and a checkpoint of that is kept; it evaluates no more than the whole run would, so
 * that a resumed run is the same run. Rollouts of later steps are given up at the end; a resumed run makes
 * them again, by the same versions.
 *
 * @throws UserError after `optimizer.maxSkipped` updates in a row with a gradient that is not finite, after
 *   `loss.importance.alarm.stopAfter` in a row of which sampler and learner were too far apart, and when every
 *   rollout of a step failed.
 */
export async function trainLoop(parts: LoopParts, start: Progress): Promise<Progress> {
  const { config, signal } = parts;
  const { steps, evalEvery, checkpointEvery, maxStaleness } = config.train;
  let progress = start;
  let kept = start.step;
  const keep = async (): Promise<void> => {
    kept = progress.step;
    await parts.keep({ progress, learner: await parts.learner.state() });
  };
  const credit = creditOf(parts);
  const ahead = openAhead(parts, credit);
  const goAhead = (): void => {
    if (maxStaleness > 0 && !signal.aborted) ahead.fill(progress);
  };
  try {
    goAhead();
    if (progress.best === null) {
      progress = await evaluate(parts, progress);
      kept = -1;
    }
    while (progress.step < steps && !signal.aborted) {
      const started = parts.context.now();
      ahead.fill(progress);
      progress = await takeStep(parts, progress, ahead, credit);
      // Before the evaluation: it does not have to be waited for.
      goAhead();
      const last = progress.step === steps;
      if (last || progress.step % evalEvery === 0) progress = await evaluate(parts, progress);
      progress = { ...progress, seconds: progress.seconds + (parts.context.now() - started) / 1000 };
      if (last || progress.step % checkpointEvery === 0) await keep();
    }
    if (signal.aborted && kept !== progress.step) await keep();
  } finally {
    await ahead.close();
  }
  return progress;
}

function creditOf({ config, train }: LoopParts): CreditConfig {
  const { refill: _, ...advantage } = config.advantage;
  const { minGroup } = config.rollout;
  return {
    ...advantage,
    minGroup,
    ...(config.reward.kind === 'malr' && config.reward.credit === 'return-to-go'
      ? { roundReturns: returnsByRound(config.reward, train) }
      : {}),
  };
}

/** The returns of a trajectory from each round on. */
function returnsByRound(settings: MalrReward, train: readonly Query[]): (t: Trajectory) => number[] {
  const reward = rewardConfig(settings);
  const goldOf = new Map(train.map((query) => [query.id, query.gold]));
  return (t) => roundReturns(t, goldOf.get(t.queryId)!, reward);
}

function openAhead({ config, pool, train }: LoopParts, credit: CreditConfig): Ahead {
  const { refill } = config.advantage;
  const { queriesPerStep, groupSize } = config.rollout;
  const settings = { seed: config.run.seed, queriesPerStep, groupSize, refill };
  const teaches = (group: Trajectory[]): boolean =>
    assignCredit([group.map((t) => ({ ...t }))], credit).calls.length > 0;
  return sampleAhead({
    depth: config.train.maxStaleness,
    lastStep: config.train.steps,
    questionsPerStep: refill === 0 ? queriesPerStep : null,
    sample: (step, policy, cursor, signal) =>
      sampleStep(pool, train, policy, step, cursor, settings, teaches, signal),
  });
}

async function takeStep(
  parts: LoopParts,
  progress: Progress,
  ahead: Ahead,
  credit: CreditConfig,
): Promise<Progress> {
  const { config, context, learner } = parts;
  const { maxStaleness } = config.train;
  const step = progress.step + 1;
  const times = [context.now()];

  const taken = await ahead.take(step);
  const { sampled, staleness } =
    maxStaleness > 0 ? dropStale(taken, progress) : { sampled: taken, staleness: null };
  if (sampled.groups.every((group) => group.length === 0))
    throw new UserError(
      `every rollout failed, the last one with ${sampled.failures.at(-1)?.reason}`,
      `step ${step}`,
      'check the policy endpoint and the retriever, then go on with --resume',
    );
  const { calls, dropped } = assignCredit(sampled.groups, credit);
  times.push(context.now());

  const learningRate = learningRateAt(step - 1, config.train.steps, config.optimizer);
  const update =
    calls.length === 0
      ? null
      : await updatePolicy(learner, calls, () => learningRate, {
          loss: config.loss,
          limits: treeLimits(config.learner),
          temperature: config.rollout.temperature,
          epochs: config.loss.epochs,
        });
  const skipped = update?.skipped ?? 0;
  // A step without an update says nothing about gradients, so it does not start the count anew.
  const skippedInARow = skipped > 0 ? progress.skippedInARow + 1 : update ? 0 : progress.skippedInARow;
  const sameWeights = limitsUnder(config.loss.importance.alarm, config.rollout.topP);
  const limits = staleness && staleness.max > 0 ? limitsWhenStale(sameWeights) : sameWeights;
  const alarms = update ? mismatchAlarms(update, limits) : [];
  const alarmsInARow = alarms.length > 0 ? progress.alarmsInARow + 1 : update ? 0 : progress.alarmsInARow;
  times.push(context.now());

  const moved = update !== null && skipped < config.loss.epochs;
  let policy = progress.policy;
  if (moved) {
    policy = await publish(parts.target, learner, (await learner.state()).adapter, step);
  }
  times.push(context.now());

  const seconds = (from: number): number => (times[from + 1]! - times[from]!) / 1000;
  await parts.onStep({
    step,
    sampled,
    dropped,
    staleness,
    update,
    learningRate,
    alarms,
    alarmsInARow,
    seconds: { sample: seconds(0), learn: seconds(1), publish: seconds(2) },
  });
  if (skippedInARow >= config.optimizer.maxSkipped)
    throw new UserError(
      `${skippedInARow} steps in a row had a gradient that is not finite`,
      `step ${step}`,
      'lower optimizer.learningRate, or look at the trajectories of these steps; the last checkpoint is whole',
    );
  const { stopAfter } = limits;
  if (stopAfter !== null && alarmsInARow >= stopAfter)
    throw new UserError(
      `sampler and learner were too far apart ${alarmsInARow} steps in a row: ${alarms.join(', ')}`,
      `step ${step}`,
      'check that the endpoint serves the base model of model.path in a like precision, and endpoint.logprobs; or raise loss.importance.alarm; the last checkpoint is whole',
    );
  const earlier = nextEarlier(progress, maxStaleness);
  return {
    ...progress,
    step,
    policy,
    ...(earlier && { earlier }),
    cursor: sampled.cursor,
    skippedInARow,
    alarmsInARow,
  };
}

/** Evaluates the current policy, and moves `best` when its held-out metric is the highest yet. */
async function evaluate(parts: LoopParts, progress: Progress): Promise<Progress> {
  const { config, context, validation } = parts;
  const { step } = progress;
  const selection = selectionQueries(validation, config);
  const whole = step === 0 || step === config.train.steps;
  const evaluation = await evaluatePolicy(context, whole ? validation : selection, progress.policy, {
    k: config.eval.k,
    sampling: greedySampling(config),
    sample: 0,
  });
  const { metric } = config.eval;
  const chosen = new Set(selection.map((query) => query.id));
  const value = mean(
    evaluation.perQuestion.filter((q) => chosen.has(q.queryId)).map((q) => metricOf(q, metric)),
  );
  await parts.onEvaluation(step, evaluation);
  if (progress.best && progress.best.value >= value) return progress;
  return { ...progress, best: { step, value, adapter: progress.policy.model } };
}

/** The held-out questions that evaluations within the run use, the same ones each time. */
function selectionQueries(validation: Query[], config: Config): Query[] {
  const { queries } = config.eval;
  if (queries === null || queries >= validation.length) return validation;
  return stream(config.run.seed, 'selection').shuffle(validation).slice(0, queries);
}
