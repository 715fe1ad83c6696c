/** Work side by side that ends as a whole. */
import { setMaxListeners } from 'node:events';

/**
 * As `Promise.all` on what `start` starts. When one of them fails, or `given` fires, the signal that they were given
 * fires; it rejects, with the first error, only when all of them have ended: nothing goes on behind it.
 */
export async function allOrStop<T>(
  given: AbortSignal | undefined,
  start: (signal: AbortSignal) => Promise<T>[],
): Promise<T[]> {
  const stop = new AbortController();
  const signal = given ? AbortSignal.any([given, stop.signal]) : stop.signal;
  // As many listen as are under way.
  setMaxListeners(0, signal);
  const running = start(signal);
  try {
    return await Promise.all(running);
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled(running);
    throw error;
  }
}
