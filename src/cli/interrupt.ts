/**
 * SIGINT and SIGTERM: the first asks to stop at the next whole point, the second ends the process as it would
 * have without us. Not by `process.exit`: that stops threads within the runtime's native code, which aborts.
 */

const CODES = { SIGINT: 130, SIGTERM: 143 } as const;
type Name = keyof typeof CODES;

export interface Interrupt {
  /** Fires at the first signal. */
  signal: AbortSignal;
  /** 130 or 143 after a signal, else null. */
  exitCode(): number | null;
  /** Gives the signals back to their default. */
  stop(): void;
}

/** Starts listening; `onFirst` says what happens now, with the name of the signal. */
export function onInterrupt(onFirst: (name: Name) => void): Interrupt {
  const controller = new AbortController();
  let first: Name | null = null;
  const stop = (): void => {
    for (const name of names) process.off(name, handle);
  };
  const handle = (name: Name): void => {
    stop();
    first = name;
    onFirst(name);
    controller.abort();
  };
  const names = Object.keys(CODES) as Name[];
  for (const name of names) process.on(name, handle);
  return {
    signal: controller.signal,
    exitCode: () => first && CODES[first],
    stop,
  };
}

/**
 * Runs `work` with a signal that fires at the first SIGINT or SIGTERM; gives 0, or 130 or 143 where the work ended by
 * that signal. Rejects with whatever else ended it.
 */
export async function interruptible(
  onFirst: (name: Name) => void,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const { signal, exitCode, stop } = onInterrupt(onFirst);
  try {
    await work(signal);
    return 0;
  } catch (error) {
    const code = exitCode();
    if (code === null || error !== signal.reason) throw error;
    return code;
  } finally {
    stop();
  }
}

/**
 * When stdout takes no more, because its reader left (`| head`) or its disk is full, the command ends as by
 * SIGTERM: training leaves a checkpoint, and what does not listen ends at once.
 */
export function endWithOutput(stdout: NodeJS.WriteStream, stderr: NodeJS.WriteStream): void {
  let ending = false;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    // What is written on the way to the end fails too.
    if (ending) return;
    ending = true;
    const readerLeft = error.code === 'EPIPE';
    if (!readerLeft) stderr.write(`lexpo: stdout: cannot be written (${error.message})\n`);
    if (process.listenerCount('SIGTERM') > 0) process.kill(process.pid, 'SIGTERM');
    else process.exit(readerLeft ? 0 : 1);
  });
}
