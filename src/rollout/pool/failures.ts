/** What a failed job says of itself, in the one line of text that goes through Redis. */
import { messageOf, UserError } from '../../base/errors.ts';
import { RolloutFailure } from '../rollout-failure.ts';

export interface JobFailure {
  /** The same seeds, tried again, may do: nothing of the rollout itself was wrong. */
  mayHeal: boolean;
  text: string;
}

/** Texts of these kinds end the run: no other rollout would do better. */
const MISTAKE = 'mistake: ';
const FAULT = 'fault: ';

/** What a rollout ended with. */
export function jobFailure(error: unknown): JobFailure {
  if (error instanceof RolloutFailure)
    return { mayHeal: mayHeal(error), text: `${error.reason}: ${error.message}` };
  if (error instanceof UserError) return { mayHeal: false, text: `${MISTAKE}${error.message}` };
  return { mayHeal: false, text: `${FAULT}${(error instanceof Error && error.stack) || messageOf(error)}` };
}

function mayHeal({ reason, status }: RolloutFailure): boolean {
  switch (reason) {
    case 'connection':
    case 'deadline':
    case 'overloaded':
    case 'environment':
    case 'cancelled':
    // A server that was started again gets its adapters back.
    case 'unknown-model':
      return true;
    case 'http':
      return status === undefined || status >= 500 || status === 408 || status === 429;
    case 'wrong-model':
    case 'too-long':
    case 'invalid-answer':
      return false;
  }
}

/** The error that ends the run, for a failure that is not the rollout's own; else null. */
export function fatalError(text: string): Error | null {
  if (text.startsWith(MISTAKE))
    return new UserError(
      text.slice(MISTAKE.length),
      'rollout worker',
      'correct it, then go on with --resume',
    );
  if (text.startsWith(FAULT)) return new Error(`a rollout worker failed: ${text.slice(FAULT.length)}`);
  return null;
}
