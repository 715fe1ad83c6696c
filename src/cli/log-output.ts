/** Where commands that run for long say things, as the section `log` has it. */
import { appendFileSync, mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { messageOf, UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import { alsoSaying, jsonSay, sayingScreen } from '../report/log.ts';
import { createScreen, type Output, type Screen } from '../report/progress.ts';
import { reportError } from './main.ts';

export interface LogOutput {
  screen: Screen;
  /** What only structured logs hold: each rollout. */
  trace(line: string): void;
  /** Says what ended the command, on stderr and in the log; gives its exit code. */
  fail(error: unknown): number;
}

/**
 * What a command says goes to `output`, and its end by a mistake or a fault to `errors`. UserError when `log.file`
 * cannot be written.
 */
export function openLog(
  config: Pick<Config, 'run' | 'log'>,
  { output, errors }: { output: Output; errors: Output },
  role: 'trainer' | 'worker' | 'retrain' | 'schedule',
): LogOutput {
  const about = {
    run: config.run.name,
    worker: role === 'worker' ? `${hostname()}-${process.pid}` : role,
  };
  const { format = 'text', file } = config.log ?? {};
  const toOutput = jsonSay((line) => void output.write(line), Date.now, about);
  const toFile = file === undefined ? null : jsonSay((line) => append(file, line), Date.now, about);
  if (file !== undefined) append(file, '');
  const shown = format === 'json' ? sayingScreen(toOutput) : createScreen(output, () => performance.now());
  return {
    screen: toFile ? alsoSaying(shown, toFile) : shown,
    trace(line) {
      if (format === 'json') toOutput(line);
      toFile?.(line);
    },
    fail(error) {
      const toErrors = jsonSay((line) => void errors.write(line), Date.now, about);
      return reportError(error, {
        write(text: string): boolean {
          if (format === 'json') toErrors(text);
          else errors.write(text);
          // When the file is what failed, the error is told above.
          if (!(error instanceof UserError && error.where === file)) toFile?.(text);
          return true;
        },
      });
    },
  };
}

/** Several processes may write one file: each line goes out in one piece. */
function append(file: string, line: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    appendFileSync(file, line);
  } catch (error) {
    throw new UserError(
      `cannot be written (${messageOf(error)})`,
      file,
      'correct log.file, or look at the disk',
    );
  }
}
