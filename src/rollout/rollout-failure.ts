export type FailureReason =
  | 'connection'
  | 'deadline'
  | 'http'
  | 'unknown-model'
  | 'wrong-model'
  | 'too-long'
  | 'overloaded'
  | 'invalid-answer';

/** Why a call to the endpoint gave nothing usable. A failed rollout, never a score. */
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
