/** `lexpo train`: guards the run folder, and hands over to the trainer. */
import { loadConfig } from '../config/load.ts';
import { configWarnings } from '../config/plan.ts';
import { onInterrupt } from './interrupt.ts';
import { openLog } from './log-output.ts';
import type { Streams } from './main.ts';
import { claimRun } from './run-claim.ts';

export interface TrainOptions {
  set: string[];
  seed?: number;
  dryRun?: boolean;
  resume?: boolean;
  fresh?: boolean;
}

/** Trains; gives the exit code: 0, 130 / 143 after an interruption, or that of what it failed with. */
export async function train(file: string, options: TrainOptions, streams: Streams): Promise<number> {
  const config = loadConfig(file, options);
  if (options.dryRun) {
    const { dryRun } = await import('./dry-run.ts');
    streams.stdout.write(await dryRun(config));
    return 0;
  }
  const { runFolder } = await import('../trainer/run-folder.ts');
  const { root } = runFolder(config);
  const { earlier, begin, release } = claimRun(root, {
    resume: options.resume ?? false,
    fresh: options.fresh ?? false,
    log: config.log?.file,
  });
  const to = { output: streams.stdout, errors: streams.stderr };
  const { screen, fail } = openOrRelease(() => openLog(config, to, 'trainer'), release);
  const interrupt = onInterrupt((name) =>
    screen.print(`${name}: stopping at the next whole point; once more ends at once`),
  );
  try {
    for (const warning of configWarnings(config)) screen.print(`note: ${warning}`);
    const { runTraining } = await import('../trainer/run.ts');
    const { signal } = interrupt;
    if (options.resume && !earlier) screen.print(`note: ${root} holds no run to go on with: starting one`);
    const end = await runTraining({ config, resume: earlier, signal, screen, begin });
    if (end === 'interrupted') return interrupt.exitCode() ?? 0;
    screen.print(`everything is in ${root}`);
    return 0;
  } catch (error) {
    return fail(error);
  } finally {
    interrupt.stop();
    release();
  }
}

function openOrRelease<T>(open: () => T, release: () => void): T {
  try {
    return open();
  } catch (error) {
    release();
    throw error;
  }
}
