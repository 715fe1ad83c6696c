/** One way to start a worker thread, from TypeScript sources (tests, tsx) and from the built package. */
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * Starts the module at `url` (as in `new URL('./engine-worker.ts', import.meta.url)`) in a worker thread.
 * A `.ts` module is run through tsx. In the built package the caller's own URL ends in `.js` while the
 * literal still says `.ts`, so pass `import.meta.url` as `caller` and the extension follows it.
 */
export function startWorker(url: URL, caller: string, options: WorkerOptions = {}): Worker {
  const built = !new URL(caller).pathname.endsWith('.ts');
  const target = built ? new URL(url.href.replace(/\.ts$/, '.js')) : url;
  const execArgv = built ? options.execArgv : ['--import', 'tsx', ...(options.execArgv ?? [])];
  return new Worker(target, { ...options, ...(execArgv ? { execArgv } : {}) });
}
