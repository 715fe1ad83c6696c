import { describe, expect, it } from 'vitest';
import { UserError } from './errors.ts';
import { revived, sendable, startWorker } from './worker.ts';

describe('startWorker', () => {
  it('runs a TypeScript module, its own imports of .ts files included', async () => {
    const worker = startWorker(new URL('./worker-echo.fixture.ts', import.meta.url), import.meta.url, {
      workerData: { seed: 7 },
    });
    const answer = await new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    expect(answer).toBeTypeOf('number');
    await worker.terminate();
  });
});

it('an error keeps its class on the way between threads, in a message as in an error event', async () => {
  const mistake = new UserError('no such file', 'a.txt', 'check it');
  // Structured cloning is what a message goes through.
  const received = revived(structuredClone(sendable(mistake)));
  expect(received).toBeInstanceOf(UserError);
  expect((received as Error).message).toBe(mistake.message);
  const fault = new TypeError('x is not a function');
  const back = revived(structuredClone(sendable(fault)));
  expect(back).toBeInstanceOf(TypeError);
  expect((back as Error).stack).toBe(fault.stack);
  expect(revived('a string')).toBe('a string');
});
