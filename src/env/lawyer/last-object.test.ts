import { expect, it } from 'vitest';
import { lastObject } from './last-object.ts';

it('the last object of a text is read whatever stands around it', () => {
  expect(lastObject('{"a":1} {"b":{"c":"}{"}}')).toEqual({ b: { c: '}{' } });
  expect(lastObject('<think>{x}</think>\n```json\n{"a":1}\n```')).toEqual({ a: 1 });
  expect(() => lastObject('<think>{"a":1}</think>说不好')).toThrow('no JSON object');
  // Of the square of the length a megabyte of it would take minutes.
  expect(() => lastObject(`${'{"a":'.repeat(200_000)}}`)).toThrow('no JSON object');
  for (const text of ['', '{', '}{', '[1]', '{x}']) expect(() => lastObject(text)).toThrow('no JSON object');
});
