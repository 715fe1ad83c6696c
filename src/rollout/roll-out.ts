/**
 * Rollouts: episodes of a query by one policy version, through an endpoint, scored. Every rollout ends in
 * exactly one result. What a member samples depends on (seed, purpose, step, query, member, attempt, call)
 * only, never on timing.
 */
import { allOrStop } from '../base/all-or-stop.ts';
import { messageOf, UserError } from '../base/errors.ts';
import { streamSeed } from '../base/random.ts';
import type { Episode } from '../env/episode.ts';
import type { Message, Policy, Query } from '../env/types.ts';
import type { Ledger } from '../reward/ledger-schema.ts';
import { type Endpoint, RolloutFailure } from './endpoint.ts';
import type { RolloutResult, Trajectory } from './trajectory.ts';

/** The policy version that samples: `model` is the name that the endpoint serves it under. */
export interface PolicyVersion {
  version: number;
  model: string;
  /** Tells a server's prompt cache which weights the name stands for; default: the version. */
  salt?: string;
}

export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  /** As in `CompletionCall`. */
  topP?: number;
  topK?: number;
  maxTokens: { planner: number; rewriter: number; lawyer: number };
  /** Attempts per member, at least 1: a failed one is sampled anew from another stream. */
  maxAttempts: number;
  /** What the prompt and the longest output of a call may come to; a longer one fails the rollout. */
  maxCallTokens?: number;
}

/** What the rollouts of a run share. The environment and the reward come as functions. */
export interface RolloutContext {
  runId: string;
  seed: number;
  endpoint: Pick<Endpoint, 'complete'>;
  renderPrompt(messages: Message[]): number[];
  stopTokenIds: number[];
  runEpisode(query: Query, policy: Policy): Promise<Episode>;
  /** Rejects with a RolloutFailure when something that judges fails. */
  score(episode: Episode, query: Query): Ledger | Promise<Ledger>;
  /** Milliseconds, monotonic. */
  now(): number;
}

/** Which rollout: `purpose` keeps the streams of training and evaluation apart. */
export interface RolloutId {
  purpose: string;
  step: number;
  member: number;
}

/** The policy of one episode: renders, samples at the endpoint, and keeps the token ids as they came. */
function endpointPolicy(
  context: RolloutContext,
  policy: PolicyVersion,
  sampling: Sampling,
  streamPath: (string | number)[],
  signal?: AbortSignal,
): Policy {
  const { temperature, topP = 1, topK = 0 } = sampling;
  return async ({ role, callIndex, messages }) => {
    if (signal?.aborted) throw new RolloutFailure('cancelled', 'the rollout was given up');
    const promptIds = context.renderPrompt(messages);
    const { planner, rewriter, lawyer } = sampling.maxTokens;
    const maxTokens = role === 'planner' ? planner : role === 'lawyer' ? lawyer : rewriter;
    const { maxCallTokens = Number.POSITIVE_INFINITY } = sampling;
    if (promptIds.length + maxTokens > maxCallTokens) {
      const what = `a prompt of ${promptIds.length} tokens and an output of up to ${maxTokens}`;
      throw new RolloutFailure('too-long', `${what} are more than learner.maxTreeTokens (${maxCallTokens})`);
    }
    const { model, ...output } = await context.endpoint.complete({
      model: policy.model,
      promptIds,
      maxTokens,
      temperature,
      topP,
      topK,
      seed: streamSeed(context.seed, ...streamPath, callIndex),
      stopTokenIds: context.stopTokenIds,
      cacheSalt: policy.salt ?? `v${policy.version}`,
      ...(signal ? { signal } : {}),
    });
    if (model !== policy.model)
      throw new RolloutFailure('wrong-model', `asked for ${policy.model}, answered by ${model}`);
    return output;
  };
}

/**
 * One episode by one attempt's streams. When `signal` fires no further call is made, and the one under way is
 * given up.
 *
 * @throws RolloutFailure for whatever an episode meets from outside, at the endpoint or at a tool. A UserError,
 *   and anything thrown by the score, passes through: no attempt would mend it.
 */
export async function rollOutOnce(
  context: RolloutContext,
  query: Query,
  policy: PolicyVersion,
  sampling: Sampling,
  { purpose, step, member, attempt }: RolloutId & { attempt: number },
  signal?: AbortSignal,
): Promise<Trajectory> {
  const path = [purpose, step, query.id, member, attempt];
  const started = context.now();
  let episode: Episode;
  try {
    episode = await context.runEpisode(query, endpointPolicy(context, policy, sampling, path, signal));
  } catch (error) {
    if (error instanceof UserError || error instanceof RolloutFailure) throw error;
    throw new RolloutFailure('environment', messageOf(error));
  }
  return {
    runId: context.runId,
    step,
    queryId: query.id,
    member,
    policyVersion: policy.version,
    adapter: policy.model,
    calls: episode.calls,
    rounds: episode.rounds,
    pool: episode.pool,
    termination: episode.termination,
    ...(episode.answer === undefined ? {} : { answer: episode.answer }),
    ...(episode.correctives === undefined ? {} : { correctives: episode.correctives }),
    ledger: await context.score(episode, query),
    advantage: null,
    dropReason: null,
    timings: { rolloutMs: Math.round(context.now() - started) },
  };
}

/**
 * One member: `rollOutOnce`, tried at most `sampling.maxAttempts` times. A failure carries the last attempt's
 * reason. Throws `signal.reason` when the signal has fired, instead of a failure.
 */
export async function rollOut(
  context: RolloutContext,
  query: Query,
  policy: PolicyVersion,
  sampling: Sampling,
  id: RolloutId,
  signal?: AbortSignal,
): Promise<RolloutResult> {
  let reason = '';
  for (let attempt = 0; attempt < sampling.maxAttempts; attempt++) {
    try {
      const trajectory = await rollOutOnce(context, query, policy, sampling, { ...id, attempt }, signal);
      return { kind: 'ok', trajectory };
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof RolloutFailure)) throw error;
      reason = `${error.reason}: ${error.message}`;
    }
  }
  return { kind: 'failed', queryId: query.id, member: id.member, reason };
}

/**
 * The group of a query: `size` members side by side, in member order. `firstMember`: above 0 when the step
 * has a group of this question already, since a member's number names its streams. Rejects when a member does, or
 * `signal` fires, and the others have ended.
 */
export function rollOutGroup(
  context: RolloutContext,
  query: Query,
  policy: PolicyVersion,
  sampling: Sampling,
  step: number,
  size: number,
  firstMember = 0,
  signal?: AbortSignal,
): Promise<RolloutResult[]> {
  return allOrStop(signal, (stop) =>
    Array.from({ length: size }, (_, i) =>
      rollOut(context, query, policy, sampling, { purpose: 'train', step, member: firstMember + i }, stop),
    ),
  );
}
