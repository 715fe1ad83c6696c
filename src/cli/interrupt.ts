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
