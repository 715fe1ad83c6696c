/** A call whose failure is a result. */
import { messageOf } from '../base/errors.ts';

export type Attempt<T> = { kind: 'ok'; value: T } | { kind: 'error'; message: string };

/** What the call throws becomes a value; faults outside it stay faults. */
export async function attempt<T>(run: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { kind: 'ok', value: await run() };
  } catch (error) {
    return { kind: 'error', message: messageOf(error) };
  }
}
