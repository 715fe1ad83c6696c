import { UserError } from '../base/errors.ts';

export type FailureReason =
  | 'connection'
  | 'deadline'
  | 'http'
  | 'unknown-model'
  | 'wrong-model'
  | 'too-long'
  | 'overloaded'
  | 'invalid-answer'
  | 'environment'
  | 'cancelled';

/** Why a call to the endpoint, or a rollout, gave nothing usable. A failed rollout, never a score. */
export class RolloutFailure extends Error {
  override name = 'RolloutFailure';
  constructor(
    readonly reason: FailureReason,
    message: string,
    /** The HTTP status, where there was an answer. */
    readonly status?: number,
  ) {
    super(message);
  }
}

const HINTS: Partial<Record<FailureReason, string>> = {
  deadline: 'raise rollout.deadlineMs, or give the endpoint less to do at once (rollout.concurrency)',
  overloaded: 'lower rollout.concurrency',
  'too-long': 'shorten the prompt, or lower rollout.maxTokens',
};

/**
 * What a failure is when it ends the program: outside of a rollout (an adapter to load, a proof to ask for)
 * nothing takes its place. Any other error is given back as it is.
 */
export function endpointError(error: unknown): unknown {
  if (!(error instanceof RolloutFailure)) return error;
  const hint = HINTS[error.reason] ?? 'correct what it says, or look at the log of the endpoint';
  return new UserError(error.message, 'policy endpoint', hint);
}
