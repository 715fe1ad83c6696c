/** SIGINT and SIGTERM: the first asks to stop at the next whole point, the second ends at once. */

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
  const handle = (name: Name): void => {
    if (first !== null) process.exit(CODES[name]);
    first = name;
    onFirst(name);
    controller.abort();
  };
  const names = Object.keys(CODES) as Name[];
  for (const name of names) process.on(name, handle);
  return {
    signal: controller.signal,
    exitCode: () => first && CODES[first],
    stop: () => {
      for (const name of names) process.off(name, handle);
    },
  };
}
