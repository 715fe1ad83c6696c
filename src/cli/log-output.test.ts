import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { temporaryFolder } from '../base/test-support.ts';
import type { Config } from '../config/schema.ts';
import { openLog } from './log-output.ts';

const scratch = temporaryFolder();

function open(log: Config['log'], role: Parameters<typeof openLog>[2] = 'trainer') {
  const said = { output: '', errors: '' };
  const to = {
    output: { write: (text: string) => (said.output += text) },
    errors: { write: (text: string) => (said.errors += text) },
  };
  const run = { name: 'demo', dir: scratch, seed: 0 };
  return { said, log: openLog({ run, log }, to, role) };
}
const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const mistake = new UserError('is not set', 'pool', 'add it');

test('text: as on a terminal; rollouts are not told, and what ends the command goes to stderr', () => {
  const { said, log } = open(undefined);
  log.screen.print('hello');
  log.trace('step 1: trajectory q/0/0 done');
  expect(log.fail(mistake)).toBe(1);
  expect(said).toEqual({ output: 'hello\n', errors: `lexpo: ${mistake.message}\n` });
});

test('json: every line of both streams is one object, the error that ended it too', () => {
  const { said, log } = open({ format: 'json' }, 'worker');
  log.screen.print('hello');
  log.trace('step 1: trajectory q/0/0 done');
  expect(log.fail(mistake)).toBe(1);
  expect(log.fail(new TypeError('ours'))).toBe(70);
  const worker = `${hostname()}-${process.pid}`;
  expect(linesOf(said.output)).toMatchObject([
    { level: 'info', run: 'demo', worker, message: 'hello' },
    { step: 1, trajectory: 'q/0/0' },
  ]);
  expect(linesOf(said.errors)).toMatchObject([
    { level: 'error', worker, message: `lexpo: ${mistake.message}` },
    { level: 'error', message: expect.stringContaining('ours') },
  ]);
});

test('a file gets everything as JSON beside the text of the screen', () => {
  const file = join(scratch, 'deep', 'log.jsonl');
  const { said, log } = open({ format: 'text', file }, 'retrain');
  log.screen.print('hello');
  log.trace('step 1: trajectory q/0/0 done');
  log.fail(mistake);
  expect(said).toEqual({ output: 'hello\n', errors: `lexpo: ${mistake.message}\n` });
  expect(linesOf(readFileSync(file, 'utf8'))).toMatchObject([
    { worker: 'retrain', message: 'hello' },
    { trajectory: 'q/0/0' },
    { level: 'error', message: `lexpo: ${mistake.message}` },
  ]);
});

test('a file that cannot be written is told at once, and a failure of it is still told on stderr', () => {
  const file = join(scratch, 'deep', 'log.jsonl', 'none');
  expect(() => open({ format: 'text', file })).toThrow(/none: cannot be written.*\n.*log\.file/);
  expect(existsSync(file)).toBe(false);
  const good = join(scratch, 'other.jsonl');
  const { said, log } = open({ format: 'text', file: good });
  expect(log.fail(new UserError('cannot be written (no space)', good))).toBe(1);
  expect(said.errors).toContain('no space');
});
