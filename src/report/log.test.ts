import { expect, test } from 'vitest';
import { alsoSaying, jsonSay, logLine, sayingScreen } from './log.ts';

const ABOUT = { run: 'demo', worker: 'host-7' };
const AT = Date.UTC(2026, 0, 2, 3, 4, 5, 6);

test('a line has time, level, run and worker, and the step where the text names one', () => {
  expect(logLine('step 12: 3 rollouts failed, the first with deadline\n', AT, ABOUT)).toEqual({
    time: '2026-01-02T03:04:05.006Z',
    level: 'warn',
    run: 'demo',
    worker: 'host-7',
    step: 12,
    message: 'step 12: 3 rollouts failed, the first with deadline',
  });
  expect(logLine('trajectory q:1/3/0 begins', AT, ABOUT).trajectory).toBe('q:1/3/0');
  expect(logLine('takes rollouts of demo', AT, ABOUT)).not.toHaveProperty('step');
});

test('levels', () => {
  const level = (text: string) => logLine(text, AT, ABOUT).level;
  expect(level('note: little memory')).toBe('warn');
  expect(level('Redis at h:1: the connection is lost; waiting for it')).toBe('warn');
  expect(level('pool: 48 rollouts, 0 failed; 0 attempts failed')).toBe('info');
  expect(level('pool: 48 rollouts, 0 failed; 10 attempts failed')).toBe('warn');
  expect(level('pool: 48 rollouts, 10 failed; 0 attempts failed')).toBe('warn');
  expect(level('no worker takes rollouts of demo: start some by lexpo worker')).toBe('warn');
  expect(level('http://a leaves the rotation: gone')).toBe('warn');
  expect(level('lexpo: is not set')).toBe('error');
  expect(level('Redis at h:1 is back')).toBe('info');
});

test('whatever is said, a line is one line, and holds no password of an address', () => {
  const lines: string[] = [];
  const say = jsonSay(
    (line) => void lines.push(line),
    () => AT,
    ABOUT,
  );
  say('a table\n  of two rows');
  say('rediss://user:hunter2@10.0.0.1:6379 refuses');
  expect(lines.map((line) => line.split('\n').length)).toEqual([2, 2]);
  expect(JSON.parse(lines[0]!).message).toBe('a table\n  of two rows');
  expect(lines[1]).not.toContain('hunter2');
  expect(lines[1]).toContain('rediss://…@10.0.0.1:6379');
});

test('progress is said by steps, also beside a screen', () => {
  const said: string[] = [];
  const bar = sayingScreen((text) => void said.push(text)).start('step', 10, 3);
  bar.update(3);
  bar.update(4, 'reward 0.5');
  bar.end();
  expect(said).toEqual(['step 4 of 10  reward 0.5']);
  expect(logLine(said[0]!, AT, ABOUT).step).toBe(4);

  const shown: string[] = [];
  const screen = alsoSaying(
    sayingScreen((text) => void shown.push(text)),
    (text) => void said.push(text),
  );
  screen.print('hello');
  screen.start('step', 10).update(1);
  expect(shown).toEqual(['hello', 'step 1 of 10']);
  expect(said.slice(1)).toEqual(shown);
});
