import { expect, it } from 'vitest';
import { type CachedPrompt, createPromptCache, promptKey } from './prompt-cache.ts';

/** 10 floats of cache and 6 of log-probabilities: 64 bytes. */
const prompt = (adapter: number): CachedPrompt => ({
  adapter,
  row: { length: 1, planes: [new Float32Array(5), new Float32Array(5)] },
  logprobs: new Float32Array(6),
});

it('drops the least recently used prompt when the budget is full', () => {
  const cache = createPromptCache(64 * 3);
  for (const key of ['a', 'b', 'c']) cache.put(key, prompt(1));
  expect(cache.bytes()).toBe(192);
  cache.get('a');
  cache.put('d', prompt(1));
  expect(['a', 'b', 'c', 'd'].map((key) => cache.get(key) !== undefined)).toEqual([true, false, true, true]);
  expect(cache.bytes()).toBe(192);
});

it('counts a prompt put twice once, and does not keep one larger than the budget', () => {
  const cache = createPromptCache(100);
  cache.put('a', prompt(1));
  cache.put('a', prompt(1));
  expect(cache.bytes()).toBe(64);
  cache.put('b', { ...prompt(1), logprobs: new Float32Array(100) });
  expect(cache.get('b')).toBeUndefined();
  expect(cache.get('a')).toBeDefined();
});

it('forgets one adapter and no other', () => {
  const cache = createPromptCache(1000);
  cache.put('a', prompt(1));
  cache.put('b', prompt(2));
  cache.dropAdapter(1);
  expect(cache.get('a')).toBeUndefined();
  expect(cache.get('b')).toBeDefined();
  expect(cache.bytes()).toBe(64);
});

it('tells adapters, salts, temperatures and prompts apart', () => {
  const keys = [
    promptKey(0, '', 1, [1, 2]),
    promptKey(1, '', 1, [1, 2]),
    promptKey(0, 'v1', 1, [1, 2]),
    promptKey(0, '', 0.5, [1, 2]),
    promptKey(0, '', 1, [12]),
    promptKey(0, '|1', 1, [2]),
    promptKey(0, '1|2', 1, []),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});
