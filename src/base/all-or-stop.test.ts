import { expect, test } from 'vitest';
import { allOrStop } from './all-or-stop.ts';

/** Ends, a tick after the signal, by its reason. */
const untilStopped = (signal: AbortSignal, ended: () => void): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () =>
      setImmediate(() => {
        ended();
        reject(signal.reason);
      }),
    );
  });

test('gives all results, in order, and does not fire', async () => {
  let seen: AbortSignal | undefined;
  const found = await allOrStop(undefined, (signal) => {
    seen = signal;
    return [3, 1, 2].map(async (n) => n);
  });
  expect(found).toEqual([3, 1, 2]);
  expect(seen!.aborted).toBe(false);
});

test('stops the others by the first error, and rejects with it when they have ended', async () => {
  let ended = 0;
  const failure = new Error('first');
  const all = allOrStop(undefined, (signal) => [
    untilStopped(signal, () => ended++),
    Promise.reject(failure),
    untilStopped(signal, () => ended++),
  ]);
  await expect(all).rejects.toBe(failure);
  expect(ended).toBe(2);
});

test('the signal from outside stops all, with its reason', async () => {
  let ended = 0;
  const outside = new AbortController();
  const all = allOrStop(outside.signal, (signal) => [1, 2, 3].map(() => untilStopped(signal, () => ended++)));
  outside.abort('enough');
  await expect(all).rejects.toBe('enough');
  expect(ended).toBe(3);
});
