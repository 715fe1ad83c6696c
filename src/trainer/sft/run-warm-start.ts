/** The warm start of a run: which demonstrations, which of them fit, and the training on them. */
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import type { Config } from '../../config/schema.ts';
import type { DemonstratedEpisode, Demonstration } from '../../env/demonstration.ts';
import type { Query } from '../../env/types.ts';
import type { Screen } from '../../report/progress.ts';
import { treeLimits } from '../create-learner.ts';
import type { Environment } from '../environment.ts';
import type { Learner } from '../learner/learner.ts';
import type { Data, Model } from '../prepare.ts';
import { readDemonstrations } from './demonstration-file.ts';
import { hasFailed, playEpisodes } from './play-episodes.ts';
import { demonstrationSample, warmStart } from './warm-start.ts';

export type SftConfig = NonNullable<Config['sft']>;

export interface WarmStartParts {
  config: Config;
  data: Pick<Data, 'train'>;
  model: Pick<Model, 'renderPrompt' | 'tokenizer' | 'endId'>;
  environment: Pick<Environment, 'demonstrate'>;
  learner: Learner;
  screen: Screen;
  signal: AbortSignal;
}

/** What a warm start was: for records. */
export interface WarmStartFacts {
  calls: number;
  questions: number;
  updates: number;
  /** Of the last update, nats a target token. */
  loss: number;
}

/**
 * Trains the learner on demonstrations (those of the file that `sft.demonstrations` names, else of the
 * environment's own teacher) and freezes the result as the reference. Throws `signal.reason` when the signal fires;
 * nothing is kept then.
 */
export async function runWarmStart(sft: SftConfig, parts: WarmStartParts): Promise<WarmStartFacts> {
  const { config, model, learner, screen, signal } = parts;
  const { epochs, tokensPerStep, learningRate } = sft;
  const { seed } = config.run;
  const demonstrations = await demonstrationsOf(sft, parts);
  const samples = demonstrations.map((d) =>
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
  const questions = new Set(demonstrations.map(({ queryId }) => queryId)).size;
  screen.print(
    `warm start: ${fitting.length} calls of ${questions} questions, ${steps} updates, loss ${loss.toFixed(3)}`,
  );
  return { calls: fitting.length, questions, updates: steps, loss };
}

/** Enough to keep helper models busy; the tools of our own take what processors there are. */
const QUESTIONS_AT_ONCE = 8;

async function demonstrationsOf(
  { demonstrations, share, rolloutsPerQuery }: SftConfig,
  { config, data, environment, screen, signal }: WarmStartParts,
): Promise<Demonstration[]> {
  const { seed } = config.run;
  const taught = stream(seed, 'warm-start', 'questions')
    .shuffle(data.train)
    .slice(0, Math.ceil(data.train.length * share));
  if (demonstrations === undefined) {
    const playable = taught.filter(({ gold }) => gold.length > 0);
    const without = taught.length - playable.length;
    if (playable.length === 0)
      throw new UserError(
        'no question of the warm start has gold, and the player that stands in for a teacher searches for nothing else',
        'sft',
        'name assistants.teacher, make sft.demonstrations with lexpo synthesize, or set sft to null',
      );
    if (without > 0) screen.print(`${without} questions without gold are not demonstrated`);
    const play = (query: Query, rollout: number): Promise<DemonstratedEpisode> =>
      environment.demonstrate(query, { rollout, seed, judged: false });
    const played = await playEpisodes(playable, play, {
      rollouts: rolloutsPerQuery,
      concurrency: QUESTIONS_AT_ONCE,
      signal,
      player: 'the demonstrations of the warm start',
      fix: 'see that what it names answers (lexpo doctor asks every helper model), then start again',
    });
    const failures = played.filter(hasFailed);
    if (failures.length > 0)
      screen.print(
        `${failures.length} of ${played.length} demonstrations failed and are left out, the first with: ${failures[0]!.failure}`,
      );
    return played.flatMap((one) => (hasFailed(one) ? [] : one.calls));
  }
  const records = await readDemonstrations(demonstrations);
  const chosen = new Set(taught.map(({ id }) => id));
  const known = new Set(data.train.map(({ id }) => id));
  const stranger = records.find(({ queryId }) => !known.has(queryId));
  if (stranger)
    throw new UserError(
      `"${stranger.queryId}" is no training question of this configuration`,
      demonstrations,
      'make the demonstrations anew with lexpo synthesize, or give the data that they are of',
    );
  return records
    .filter(({ queryId, rollout }) => chosen.has(queryId) && rollout < rolloutsPerQuery)
    .flatMap(({ queryId, calls }) => calls.map((call) => ({ queryId, ...call })));
}
