/**
 * Structured logs: what is said as text becomes one JSON object a line, with the time, the run, and the step, the
 * trajectory and the worker where the text or the process names them. A small adapter around `say`: nobody who
 * says something has to know of it.
 */
import type { Screen } from './progress.ts';

export interface LogAbout {
  run: string;
  /** `trainer`, `retrain`, `schedule`, or a worker's own name. */
  worker: string;
}

export interface LogLine extends LogAbout {
  /** ISO 8601. */
  time: string;
  level: 'info' | 'warn' | 'error';
  step?: number;
  /** `query/member/attempt`. */
  trajectory?: string;
  message: string;
}

/** The line for what was said at `time` (milliseconds since 1970). Passwords within addresses are left out. */
export function logLine(text: string, time: number, about: LogAbout): LogLine {
  const message = text.trimEnd().replace(/:\/\/[^\s/@]*@/g, '://…@');
  const step = /\bstep (\d+)\b/.exec(message)?.[1];
  const trajectory = /\btrajectory (.+?\/\d+\/\d+)(?=[ :]|$)/.exec(message)?.[1];
  return {
    time: new Date(time).toISOString(),
    level: levelOf(message),
    ...about,
    ...(step === undefined ? {} : { step: Number(step) }),
    ...(trajectory === undefined ? {} : { trajectory }),
    message,
  };
}

/** Notes are warnings; so is what leaves, is lost, fails or is cancelled. A count of 0 failures is none. */
function levelOf(told: string): LogLine['level'] {
  const message = told.replace(/\b0 (\w+ )?failed\b/g, '');
  if (/^lexpo: /.test(message)) return 'error';
  return /^note: |^no worker takes|\bfailed\b|\bis lost\b|leaves the rotation|stays out|are cancelled/.test(
    message,
  )
    ? 'warn'
    : 'info';
}

/** `say` that writes JSON lines. */
export const jsonSay =
  (write: (line: string) => void, now: () => number, about: LogAbout) =>
  (text: string): void =>
    write(`${JSON.stringify(logLine(text, now(), about))}\n`);

/** A screen that says everything by `say`: a progress line is said once it has moved. */
export function sayingScreen(say: (text: string) => void): Screen {
  return {
    print: say,
    start: (label, total, done = 0) => {
      let told = done;
      return {
        update(count, note = '') {
          if (count === told && note === '') return;
          told = count;
          say(`${label} ${count} of ${total}${note ? `  ${note}` : ''}`);
        },
        end() {},
      };
    },
  };
}

/** A screen that shows on `screen` as before, and says whole lines and progress by `say` too. */
export function alsoSaying(screen: Screen, say: (text: string) => void): Screen {
  const other = sayingScreen(say);
  return {
    print(text) {
      screen.print(text);
      other.print(text);
    },
    start(label, total, done) {
      const [shown, said] = [screen.start(label, total, done), other.start(label, total, done)];
      return {
        update(count, note) {
          shown.update(count, note);
          said.update(count, note);
        },
        end: () => shown.end(),
      };
    },
  };
}
