/**
 * One contestant of a benchmark: a process of its own that makes a step whenever it is told to, and sleeps in
 * between. It writes a JSON line with `ready` before each step, gets an empty line, and answers with a line
 * that has `seconds`, `loss` and `peakMegabytes` of the step.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface StepReport {
  seconds: number;
  loss: number;
  /** Largest resident size of the process so far. */
  peakMegabytes: number;
}

export interface Stepper {
  step(): Promise<StepReport>;
  close(): Promise<void>;
}

/** Starts the process and waits until it is ready for its first step. */
export async function startStepper(
  command: string,
  args: string[],
  env: Record<string, string>,
): Promise<Stepper> {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
  const next = lines(child, `${command} ${args[0]}`);
  await next((line) => 'ready' in line);
  return {
    async step() {
      child.stdin!.write('\n');
      return (await next((line) => 'seconds' in line)) as unknown as StepReport;
    },
    async close() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((resolve) => child.once('exit', resolve));
      const timer = setTimeout(() => child.kill(), 10_000);
      child.stdin!.end();
      await ended;
      clearTimeout(timer);
    },
  };
}

type Line = Record<string, unknown>;

/** Gives the next JSON line that satisfies; rejects with what the process said when it ends before. */
function lines(child: ChildProcess, name: string): (wanted: (line: Line) => boolean) => Promise<Line> {
  const arrived: Line[] = [];
  let errors = '';
  let ended: string | null = null;
  let wake = (): void => {};
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4000);
  });
  child.once('error', (error) => {
    ended = error.message;
    wake();
  });
  child.once('close', (code, signal) => {
    ended ??= `it ended with ${signal ?? `code ${code}`}`;
    wake();
  });
  createInterface({ input: child.stdout! }).on('line', (text) => {
    if (!text.startsWith('{')) return;
    arrived.push(JSON.parse(text) as Line);
    wake();
  });
  return async (wanted) => {
    for (;;) {
      const at = arrived.findIndex(wanted);
      if (at >= 0) return arrived.splice(0, at + 1)[at]!;
      if (ended !== null) throw new Error(`${name}: ${ended}\n${errors}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
}
