/** `lexpo worker`: rollouts for a trainer, until it is interrupted. */
import { loadConfig } from '../config/load.ts';
import { runWorker } from '../trainer/run-worker.ts';
import { onInterrupt } from './interrupt.ts';
import { openLog } from './log-output.ts';
import type { Streams } from './main.ts';

export interface WorkerCommandOptions {
  set: string[];
  seed?: number;
  concurrency: number;
}

/** Works; gives the exit code: 0 once a signal ended it, since leaving is what it was asked for. */
export async function worker(file: string, options: WorkerCommandOptions, streams: Streams): Promise<number> {
  const config = loadConfig(file, options);
  const { screen, trace, fail } = openLog(
    config,
    { output: streams.stderr, errors: streams.stderr },
    'worker',
  );
  const say = screen.print;
  const interrupt = onInterrupt((name) =>
    say(`${name}: ends after the rollouts under way; once more ends at once`),
  );
  try {
    const done = await runWorker({
      config,
      concurrency: options.concurrency,
      signal: interrupt.signal,
      say,
      trace,
    });
    say(`${done} rollouts done`);
    return 0;
  } catch (error) {
    return fail(error);
  } finally {
    interrupt.stop();
  }
}
