import { expect, test } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { redisError } from './redis-refusal.ts';

const reply = (message: string, previousErrors?: Error[]): Error =>
  Object.assign(new Error(message), { name: 'ReplyError', previousErrors });

test.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", /is full.*OOM.*\n.*maxmemory.*--resume/],
  ['MISCONF Errors writing to the AOF file: No space left on device', /cannot write to its disk/],
  ["READONLY You can't write against a read only replica.", /read-only replica.*\n.*primary/],
  ["NOPERM User lexpo has no permissions to run the 'info' command", /does not permit/],
  ['ERR something new', /refuses a command \(ERR something new\)/],
])('%s', (message, told) => {
  const error = redisError(reply(message));
  expect(error).toBeInstanceOf(UserError);
  expect((error as UserError).message).toMatch(told);
});

test('a transaction that was given up tells what was refused in it', () => {
  const oom = reply("OOM command not allowed when used memory > 'maxmemory'.");
  const error = redisError(reply('EXECABORT Transaction discarded because of previous errors.', [oom]));
  expect((error as UserError).message).toMatch(/is full/);
});

test('what Redis did not say stays as it is', () => {
  for (const other of [new TypeError('OOM'), new UserError('x', 'y', 'z'), 'OOM', undefined])
    expect(redisError(other)).toBe(other);
});
