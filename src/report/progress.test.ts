import { expect, test } from 'vitest';
import { createScreen } from './progress.ts';

function setUp(terminal: { isTTY: boolean; columns?: number }) {
  const written: string[] = [];
  let time = 1000;
  const screen = createScreen({ ...terminal, write: (text) => written.push(text) }, () => time);
  return { screen, written, pass: (ms: number) => (time += ms) };
}

/** What a terminal shows after the writes: lines, with carriage return and erase-line applied. */
function shown(written: string[]): string[] {
  const lines = [''];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences of a terminal
  for (const part of written.join('').split(/(\n|\r\u001b\[K)/)) {
    if (part === '\n') lines.push('');
    else if (part === '\r\u001b[K') lines[lines.length - 1] = '';
    else lines[lines.length - 1] += part;
  }
  return lines;
}

test('on a terminal one line is rewritten, and prints come above it', () => {
  const { screen, written, pass } = setUp({ isTTY: true, columns: 80 });
  const progress = screen.start('step', 10);
  for (let done = 1; done <= 4; done++) {
    pass(2000);
    progress.update(done, `reward ${done / 10}`);
    if (done === 2) screen.print('a table\nof two lines');
  }
  expect(shown(written)).toEqual(['a table', 'of two lines', 'step 4/10  2.0 s each  12 s left  reward 0.4']);
  progress.end();
  screen.print('after');
  expect(shown(written).slice(2)).toEqual(['step 4/10  2.0 s each  12 s left  reward 0.4', 'after', '']);
});

test('the line never wraps', () => {
  const { screen, written, pass } = setUp({ isTTY: true, columns: 20 });
  const progress = screen.start('评测', 10);
  pass(100);
  progress.update(1, '法律法律法律法律法律');
  expect(shown(written)).toEqual(['评测 1/10  10.0/s …']);
});

test('elsewhere a plain line comes every five seconds, and the last one always', () => {
  const { screen, written, pass } = setUp({ isTTY: false });
  const progress = screen.start('question', 100);
  for (let done = 1; done <= 100; done++) {
    pass(100);
    progress.update(done);
  }
  progress.end();
  expect(written).toEqual([
    'question 1/100  10.0/s  9.9 s left\n',
    'question 51/100  10.0/s  4.9 s left\n',
    'question 100/100  10.0/s\n',
  ]);
});

test('a resumed run counts only what it did itself, and the rate follows the last updates', () => {
  const { screen, written, pass } = setUp({ isTTY: false });
  const progress = screen.start('step', 100, 50);
  pass(4000);
  progress.update(51);
  expect(written.at(-1)).toBe('step 51/100  4.0 s each  3 min 16 s left\n');
  for (let done = 52; done <= 72; done++) {
    pass(10_000);
    progress.update(done);
  }
  expect(written.at(-1)).toBe('step 72/100  10 s each  4 min 40 s left\n');
});

test('before anything is done there is no rate and no time left', () => {
  const { screen, written } = setUp({ isTTY: false });
  screen.start('step', 5).update(0);
  expect(written).toEqual(['step 0/5\n']);
});

test('a line started with its first result counts from there', () => {
  const { screen, written, pass } = setUp({ isTTY: false });
  const progress = screen.start('update', 4);
  progress.update(1);
  pass(6000);
  progress.update(2);
  expect(written).toEqual(['update 1/4\n', 'update 2/4  6.0 s each  12 s left\n']);
});
