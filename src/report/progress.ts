/**
 * What one sees while a run goes on: one progress line with rate and time left, rewritten in place on a
 * terminal, a plain line every few seconds elsewhere; and whole lines above it.
 */
import { duration, fit } from './text.ts';

/** The part of a stream that is written to; `process.stdout` is one. */
export interface Output {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
}

export interface Screen {
  /** Whole lines, above the progress line. */
  print(text: string): void;
  /** Starts a progress line, in place of another one. `done` > 0: a resumed run's steps do not count as speed. */
  start(label: string, total: number, done?: number): Progress;
}

export interface Progress {
  /** `done` of the total are done; `note` is shown behind, such as the step's reward. */
  update(done: number, note?: string): void;
  /** Ends the line: it stays as it is, and later lines come below. */
  end(): void;
}

/** Milliseconds between two plain progress lines where the output is no terminal. */
const PLAIN_EVERY_MS = 5000;
/** The rate is that of the last updates, since steps grow or shrink over a run. */
const RATE_WINDOW = 20;

/** No rate is told from a shorter time than this. */
const EARLIEST_MS = 50;

/** A screen on `output`; `now` in milliseconds. */
export function createScreen(output: Output, now: () => number): Screen {
  let shown: string | null = null;
  const clear = () => {
    if (shown !== null) output.write('\r\u001b[K');
  };
  const draw = (line: string) => {
    clear();
    shown = line;
    output.write(fit(line, (output.columns ?? 80) - 1));
  };
  return {
    print: (text) => {
      const line = shown;
      clear();
      output.write(`${text}\n`);
      if (line !== null) draw(line);
    },
    start: (label, total, done = 0) => {
      const line = progressLine(label, total, done, now);
      let printedAt = Number.NEGATIVE_INFINITY;
      return {
        update: (count, note = '') => {
          const text = line(count, note);
          if (output.isTTY) return draw(text);
          if (count < total && now() - printedAt < PLAIN_EVERY_MS) return;
          printedAt = now();
          output.write(`${text}\n`);
        },
        end: () => {
          if (shown !== null) output.write('\n');
          shown = null;
        },
      };
    },
  };
}

/** Makes the text of a progress line; remembers when what was done. */
function progressLine(label: string, total: number, done: number, now: () => number) {
  const seen: { at: number; done: number }[] = [{ at: now(), done }];
  return (count: number, note: string): string => {
    const at = now();
    // A line that is started only when the first result is there starts counting from that.
    if (seen.length === 1 && at - seen[0]!.at < EARLIEST_MS) seen[0] = { at: seen[0]!.at, done: count };
    else if (count > seen.at(-1)!.done) seen.push({ at, done: count });
    if (seen.length > RATE_WINDOW + 1) seen.shift();
    const first = seen[0]!;
    const last = seen.at(-1)!;
    const seconds = (last.at - first.at) / 1000;
    const parts = [`${label} ${count}/${total}`];
    if (last.done > first.done && seconds > 0) {
      const rate = (last.done - first.done) / seconds;
      parts.push(rate >= 1 ? `${rate.toFixed(1)}/s` : `${duration(1 / rate)} each`);
      if (count < total) parts.push(`${duration((total - count) / rate)} left`);
    }
    if (note) parts.push(note);
    return parts.join('  ');
  };
}
