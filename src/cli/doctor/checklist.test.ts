import { expect, test } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { RolloutFailure } from '../../rollout/rollout-failure.ts';
import { createChecklist, type Finding, findingText } from './checklist.ts';

test('what needs a failed check is skipped, what does not goes on, and values are handed on', async () => {
  const told: Finding[] = [];
  const list = createChecklist((finding) => void told.push(finding));
  const one = await list.check('one', [], () => ({ value: 1, detail: 'is 1' }));
  const two = await list.check<number, []>('two', [], () => {
    throw new UserError('is broken', 'x.json', 'mend it');
  });
  const three = await list.check('three', [one, two], () => ({ value: null, detail: 'never' }));
  await list.check('four', [two, three], () => ({ value: null, detail: 'never' }));
  await list.check('five', [one], async (value) => ({ value, detail: `got ${value}`, warnings: ['a', 'b'] }));
  expect(list.findings).toEqual([
    { name: 'one', status: 'ok', detail: 'is 1', hint: null },
    { name: 'two', status: 'fail', detail: 'x.json: is broken', hint: 'mend it' },
    { name: 'three', status: 'skip', detail: 'needs two', hint: null },
    { name: 'four', status: 'skip', detail: 'needs two and three', hint: null },
    { name: 'five', status: 'warn', detail: 'got 1', hint: 'a; b' },
  ]);
  expect(told).toEqual(list.findings);
});

test('whatever is thrown becomes a finding with something to do, never a stack', async () => {
  const list = createChecklist(() => {});
  const failing = (error: unknown) =>
    list.check('x', [], () => {
      throw error;
    });
  await failing(new RolloutFailure('deadline', 'no answer for 30 ms'));
  await failing(Object.assign(new Error('EACCES: denied'), { syscall: 'open' }));
  await failing(new TypeError('y is not a function'));
  await failing('a text');
  expect(list.findings.map(({ detail, hint }) => [detail, hint?.split(',')[0]])).toEqual([
    ['policy endpoint: no answer for 30 ms', 'raise rollout.deadlineMs'],
    ['EACCES: denied', 'check the path'],
    ['y is not a function', "this looks like a fault of the program's own: please report it"],
    ['a text', "this looks like a fault of the program's own: please report it"],
  ]);
  expect(list.findings.map(({ detail }) => detail).join()).not.toContain(' at ');
});

test('once interrupted, the rest is skipped', async () => {
  const controller = new AbortController();
  const list = createChecklist(() => {}, controller.signal);
  await list.check('one', [], () => {
    controller.abort();
    return { value: null, detail: 'done' };
  });
  await list.check('two', [], () => ({ value: null, detail: 'never' }));
  expect(list.findings.map(({ status, detail }) => `${status} ${detail}`)).toEqual([
    'ok done',
    'skip interrupted',
  ]);
});

test('a finding is one line; several mistakes stand below it', () => {
  const finding = (detail: string, hint: string | null): Finding => ({
    name: 'x',
    status: 'ok',
    detail,
    hint,
  });
  expect(findingText(finding('fine', null), 3)).toBe('ok    x    fine');
  expect(findingText(finding('bad', 'do\nthis'), 3)).toBe('ok    x    bad → do this');
  expect(findingText(finding('2 mistakes\n  a: b\n  c: d', 'correct them'), 1)).toBe(
    ['ok    x  2 mistakes', '        a: b', '        c: d', '        → correct them'].join('\n'),
  );
});
