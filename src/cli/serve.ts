/** `lexpo serve`: the embedded policy server until it is interrupted. */
import { mkdir } from 'node:fs/promises';
import { writeError } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { startServer } from '../serve/server.ts';
import { onInterrupt } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface ServeOptions {
  port: number;
  host: string;
  /** Left out: `runs`, which a first run has still to fill. */
  adapters?: string;
  threads: number;
  apiKeyEnv?: string;
}

/** Serves; gives the exit code once a signal ended it. */
export async function serve(modelFolder: string, options: ServeOptions, streams: Streams): Promise<number> {
  const { port, host, adapters, threads, apiKeyEnv } = options;
  const log = (line: string): void => void streams.stderr.write(`${line}\n`);
  const apiKey = apiKeyEnv === undefined ? undefined : keyFrom(apiKeyEnv);
  const interrupt = onInterrupt((name) => log(`${name}: closing`));
  try {
    const server = await startServer({
      modelFolder,
      adapterRoot: adapters ?? (await runsFolder()),
      host,
      port,
      apiKey,
      threads,
      log,
    });
    streams.stdout.write(`${server.url}\n`);
    await new Promise<void>((resolve) => {
      if (interrupt.signal.aborted) resolve();
      else interrupt.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await server.close();
    return interrupt.exitCode() ?? 0;
  } finally {
    interrupt.stop();
  }
}

const RUNS = 'runs';

async function runsFolder(): Promise<string> {
  await mkdir(RUNS, { recursive: true }).catch((error: unknown) => {
    throw writeError(error, RUNS);
  });
  return RUNS;
}

/** The key's value; the key itself never stands on a command line, where others can read it. */
function keyFrom(name: string): string {
  const key = process.env[name];
  if (!key)
    throw new UserError(
      'is not set',
      `environment variable ${name}`,
      'set it to the key, or leave --api-key-env out',
    );
  return key;
}
