/** What Redis refuses while it is used, as a sentence. Free of any client, so that whoever reports errors can ask. */
import { messageOf, UserError } from '../../base/errors.ts';

interface ReplyError extends Error {
  /** Of a transaction that was given up: why. */
  previousErrors?: Error[];
}

/** A UserError for an error reply of Redis; else `error` itself. */
export function redisError(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return error;
  const [first] = (error as ReplyError).previousErrors ?? [];
  const message = messageOf(first ?? error);
  const { what, todo } = sentence(/\b(OOM|MISCONF|READONLY|NOPERM)\b/.exec(message)?.[1]);
  return new UserError(`${what} (${message})`, 'Redis', `${todo}; a run goes on with --resume`);
}

function sentence(code: string | undefined): { what: string; todo: string } {
  switch (code) {
    case 'OOM':
      return {
        what: 'is full',
        todo: 'raise its maxmemory, or remove what else lives there (docs/operations.md)',
      };
    case 'MISCONF':
      return { what: 'cannot write to its disk', todo: 'make room on its disk, and look at its log' };
    case 'READONLY':
      return {
        what: 'is a read-only replica',
        todo: 'give the address of the primary as pool.redis.url or retrain.redis.url',
      };
    case 'NOPERM':
      return {
        what: 'does not permit what is needed',
        todo: 'give the user all that docs/operations.md names, on the keys of redis.prefix',
      };
    default:
      return { what: 'refuses a command', todo: 'look at its log' };
  }
}
