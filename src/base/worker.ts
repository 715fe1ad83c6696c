/** One way to start a worker thread, from TypeScript sources (tests, tsx) and from the built package. */
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { UserError } from './errors.ts';

/**
 * Starts the module at `url` (as in `new URL('./engine-worker.ts', import.meta.url)`) in a worker thread.
 * In the built package the caller's own URL ends in `.js` while the literal still says `.ts`, so pass
 * `import.meta.url` as `caller` and the extension follows it. A `.ts` module is run through tsx, a
 * development dependency; `--import tsx` does not reach worker threads on Node 20, so a few lines of
 * JavaScript register it there first.
 */
export function startWorker(url: URL, caller: string, options: WorkerOptions = {}): Worker {
  if (!new URL(caller).pathname.endsWith('.ts'))
    return new Worker(new URL(url.href.replace(/\.ts$/, '.js')), options);
  const tsx = import.meta.resolve('tsx/esm/api');
  const code = `import { register } from ${JSON.stringify(tsx)}; register(); await import(${JSON.stringify(url.href)});`;
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`), options);
}

/** An error to be sent in a message, from which `revived` makes the error again. */
export function sendable(error: unknown): unknown {
  return error instanceof UserError ? { name: error.name, message: error.message } : error;
}

/**
 * An error as it came from a thread. Its class does not survive the way; its name does in an `error` event,
 * and in a message only by `sendable`.
 */
export function revived(error: unknown): unknown {
  const { name, message } = (error ?? {}) as Partial<Error>;
  return name === 'UserError' ? new UserError(message ?? '') : error;
}
