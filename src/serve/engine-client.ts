/** The HTTP thread's side of the engine: requests as promises, and the news of the engine's death. */
import type { Worker } from 'node:worker_threads';
import { messageOf } from '../base/errors.ts';
import { revived, startWorker } from '../base/worker.ts';
import type {
  AdapterUid,
  EngineStats,
  FromWorker,
  GenerateJob,
  LoadOutcome,
  SampleResult,
  ScoreResult,
  ToWorker,
  WorkerInit,
} from './protocol.ts';

/** The engine thread is gone, or could not do what was asked. */
export class EngineError extends Error {
  override name = 'EngineError';
  constructor(
    readonly kind: 'dead' | 'failed' | 'cancelled',
    message: string,
  ) {
    super(message);
  }
}

/** Samples by index (prompt × n + i), and the score of each prompt where it was asked for. */
export interface Generated {
  samples: SampleResult[];
  scores: ScoreResult[];
}

export interface EngineClient {
  /** `signal` takes the request out of the engine. */
  generate(job: Omit<GenerateJob, 'id'>, signal: AbortSignal): Promise<Generated>;
  load(name: string, folder: string): Promise<LoadOutcome>;
  unload(adapter: AdapterUid): void;
  stats(): Promise<EngineStats>;
  /** Null while the engine lives, else how it died. */
  death(): string | null;
  /** Fails what is under way, and ends the thread once the calculation it is in is done. */
  close(): Promise<void>;
}

interface Pending<T> {
  resolve(value: T): void;
  reject(error: Error): void;
}
interface PendingJob extends Pending<Generated> {
  expected: number;
  generated: Generated;
}

/** Starts the engine thread; resolves when the model is loaded, UserError when it cannot be. */
export async function startEngine(init: WorkerInit, log: (line: string) => void): Promise<EngineClient> {
  const url = new URL('./engine-worker.ts', import.meta.url);
  const worker = startWorker(url, import.meta.url, { workerData: init, name: 'lexpo-engine' });
  let lastId = 0;
  let death: string | null = null;
  const jobs = new Map<number, PendingJob>();
  const loads = new Map<number, Pending<LoadOutcome>>();
  const statistics = new Map<number, Pending<EngineStats>>();
  const send = (message: ToWorker): void => worker.postMessage(message);

  function die(cause: string): void {
    if (death !== null) return;
    death = cause;
    const error = new EngineError('dead', `the engine is dead: ${cause}`);
    for (const pending of [jobs, loads, statistics]) {
      for (const { reject } of pending.values()) reject(error);
      pending.clear();
    }
  }

  function receive(message: FromWorker): void {
    if (message.kind === 'results') for (const result of message.results) take(jobs, result);
    else if (message.kind === 'loaded') settle(loads, message.id, message.outcome);
    else if (message.kind === 'stats') settle(statistics, message.id, message.stats);
  }

  await untilReady(worker);
  worker.on('message', receive);
  worker.on('error', (error) => {
    log(`engine thread failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    die(messageOf(error));
  });
  const exited = new Promise<void>((resolve) => {
    worker.on('exit', (code) => {
      die(`its thread ended with code ${code}`);
      resolve();
    });
  });

  function ask<T>(pending: Map<number, Pending<T>>, message: (id: number) => ToWorker): Promise<T> {
    return new Promise((resolve, reject) => {
      if (death !== null) return reject(new EngineError('dead', `the engine is dead: ${death}`));
      const id = ++lastId;
      pending.set(id, { resolve, reject });
      send(message(id));
    });
  }

  return {
    generate(job, signal) {
      return new Promise((resolve, reject) => {
        if (death !== null) return reject(new EngineError('dead', `the engine is dead: ${death}`));
        const cancelled = new EngineError('cancelled', 'the client went away');
        if (signal.aborted) return reject(cancelled);
        const id = ++lastId;
        const samples = job.maxTokens > 0 ? job.prompts.length * job.n : 0;
        const expected = samples + (job.score ? job.prompts.length : 0);
        const generated = { samples: [], scores: [] };
        if (expected === 0) return resolve(generated);
        jobs.set(id, { resolve, reject, expected, generated });
        send({ kind: 'generate', id, ...job });
        const cancel = (): void => {
          if (!jobs.delete(id)) return;
          send({ kind: 'cancel', id });
          reject(cancelled);
        };
        signal.addEventListener('abort', cancel, { once: true });
      });
    },
    load: (name, folder) => ask(loads, (id) => ({ kind: 'load', id, name, folder })),
    unload: (adapter) => send({ kind: 'unload', adapter }),
    stats: () => ask(statistics, (id) => ({ kind: 'stats', id })),
    death: () => death,
    async close() {
      die('the server was closed');
      // A thread that is terminated within the runtime's own code takes the whole process with it.
      send({ kind: 'close' });
      await exited;
    },
  };
}

function settle<T>(pending: Map<number, Pending<T>>, id: number, value: T): void {
  pending.get(id)?.resolve(value);
  pending.delete(id);
}

/** Files a result with its job; the last one settles it. Results of cancelled jobs have no taker. */
function take(
  jobs: Map<number, PendingJob>,
  result: (FromWorker & { kind: 'results' })['results'][number],
): void {
  const job = jobs.get(result.id);
  if (!job) return;
  if (result.kind === 'failed') {
    jobs.delete(result.id);
    job.reject(new EngineError('failed', result.message));
    return;
  }
  const { samples, scores } = job.generated;
  if (result.kind === 'sample') samples[result.index] = result;
  else scores[result.index] = result;
  if (--job.expected > 0) return;
  jobs.delete(result.id);
  job.resolve(job.generated);
}

function untilReady(worker: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown): void => reject(revived(error));
    worker.once('message', () => {
      worker.off('error', failed);
      resolve();
    });
    worker.once('error', failed);
    worker.once('exit', (code) =>
      reject(new Error(`the engine thread ended with code ${code} at its start`)),
    );
  });
}
