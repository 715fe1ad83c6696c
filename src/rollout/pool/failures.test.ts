import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { type FailureReason, RolloutFailure } from '../rollout-failure.ts';
import { fatalError, jobFailure } from './failures.ts';

const healing: [FailureReason, number?][] = [
  ['connection'],
  ['deadline'],
  ['overloaded', 429],
  ['environment'],
  ['cancelled'],
  ['unknown-model', 404],
  ['http', 500],
  ['http', 503],
  ['http', 408],
];
const lasting: [FailureReason, number?][] = [
  ['http', 400],
  ['http', 401],
  ['http', 404],
  ['too-long', 400],
  ['wrong-model'],
  ['invalid-answer'],
];

describe('jobFailure', () => {
  it.each(healing)('%s %s may heal, and is no end of the run', (reason, status) => {
    const failure = jobFailure(new RolloutFailure(reason, 'why', status));
    expect(failure).toEqual({ mayHeal: true, text: `${reason}: why` });
    expect(fatalError(failure.text)).toBeNull();
  });

  it.each(lasting)('%s %s does not heal with the same seeds', (reason, status) => {
    expect(jobFailure(new RolloutFailure(reason, 'why', status)).mayHeal).toBe(false);
  });

  it('ends the run for a mistake, told as one, and for a fault of ours, with its stack', () => {
    const mistake = jobFailure(new UserError('has no such question', 'train.jsonl', 'put it there'));
    expect(mistake.mayHeal).toBe(false);
    expect(fatalError(mistake.text)).toBeInstanceOf(UserError);
    expect(fatalError(mistake.text)!.message).toContain('train.jsonl: has no such question');
    const fault = jobFailure(new TypeError('x is undefined'));
    expect(fault.mayHeal).toBe(false);
    expect(fatalError(fault.text)).not.toBeInstanceOf(UserError);
    expect(fatalError(fault.text)!.message).toContain('failures.test.ts');
  });
});
