import { describe, expect, it } from 'vitest';
import { startWorker } from './worker.ts';

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
