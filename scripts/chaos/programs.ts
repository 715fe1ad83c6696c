/** The programs of a chaos run: `lexpo` as processes of their own, with what they say. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Program {
  pid: number;
  /** Everything said so far, on both streams. */
  said(): string;
  alive(): boolean;
  /** Resolves with the exit code; null after a signal. */
  ended: Promise<number | null>;
  kill(signal?: NodeJS.Signals): Promise<void>;
}

export function lexpo(args: readonly string[]): Program {
  const child: ChildProcess = spawn(process.execPath, ['bin/lexpo.js', ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const from of [child.stdout!, child.stderr!])
    from.on('data', (chunk: Buffer) => {
      said += chunk;
    });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const alive = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    pid: child.pid!,
    said: () => said,
    alive,
    ended,
    async kill(signal = 'SIGKILL') {
      if (!alive()) return;
      child.kill(signal);
      await ended;
    },
  };
}

/** Waits until the program has said something that matches; throws with all it said when it ends before. */
export async function until(program: Program, pattern: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const found = pattern.exec(program.said());
    if (found) return found;
    if (!program.alive()) throw new Error(`ended before it said ${pattern}:\n${program.said()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
