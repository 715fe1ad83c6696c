/** Bounded concurrency: first come, first served. */

/** At most `most` of the runs given to the returned function are under way at once. */
export function createLimit(most: number): <T>(run: () => Promise<T>) => Promise<T> {
  const queue: (() => void)[] = [];
  let active = 0;
  return async (run) => {
    if (active >= most) await new Promise<void>((resolve) => queue.push(resolve));
    else active++;
    try {
      return await run();
    } finally {
      // The place goes straight to the next in line, or is given up.
      const next = queue.shift();
      if (next) next();
      else active--;
    }
  };
}
