import { expect, test } from 'vitest';
import { displayWidth, duration, fit, pad, printable, short } from './text.ts';

test('widths are those of a terminal', () => {
  expect(displayWidth('abc')).toBe(3);
  expect(displayWidth('法律abc')).toBe(7);
  expect(displayWidth('（第一条）')).toBe(10);
  expect(displayWidth('e\u0301')).toBe(1);
  expect(displayWidth('\u{20000}')).toBe(2);
});

test('pad fills to a width, fit cuts to it, both by columns', () => {
  expect(pad('法', 4, 'left')).toBe('法  ');
  expect(pad('法', 4, 'right')).toBe('  法');
  expect(pad('法律法', 4, 'left')).toBe('法律法');
  expect(fit('法律法', 6)).toBe('法律法');
  expect(fit('法律法', 5)).toBe('法律…');
  expect(fit('法律法', 4)).toBe('法…');
  expect(fit('abc', 0)).toBe('');
});

test('control characters of outside text become visible', () => {
  expect(printable('a\u001b[2Jb\rc')).toBe('a\\u001b[2Jb\\u000dc');
  expect(printable('第一条\n\t两行')).toBe('第一条\n\t两行');
  expect(printable('\u202egnp.exe')).toBe('\\u202egnp.exe');
});

test('durations and counts are short', () => {
  expect([0.44, 8.25, 59.9, 59.96, 60, 185, 3599.6, 7620].map(duration)).toEqual([
    '0.4 s',
    '8.3 s',
    '60 s',
    '1 min 00 s',
    '1 min 00 s',
    '3 min 05 s',
    '1 h 00 min',
    '2 h 07 min',
  ]);
  expect([0, 950, 12_345, 4_560_000, 1.2e9].map(short)).toEqual(['0', '950', '12.3 k', '4.56 M', '1.2 G']);
});
