/** `lexpo worker`: rollouts for a trainer, until it is interrupted. */
import { loadConfig } from '../config/load.ts';
import { runWorker } from '../trainer/work.ts';
import { onInterrupt } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface WorkerCommandOptions {
  set: string[];
  seed?: number;
  concurrency: number;
}

/** Works; gives the exit code once a signal ended it: 0, since leaving is what it was asked for. */
export async function worker(file: string, options: WorkerCommandOptions, streams: Streams): Promise<number> {
  const config = loadConfig(file, options);
  const say = (line: string): void => void streams.stderr.write(`${line}\n`);
  const interrupt = onInterrupt((name) =>
    say(`${name}: ends after the rollouts under way; once more ends at once`),
  );
  try {
    const done = await runWorker({ config, concurrency: options.concurrency, signal: interrupt.signal, say });
    say(`${done} rollouts done`);
    return 0;
  } finally {
    interrupt.stop();
  }
}
