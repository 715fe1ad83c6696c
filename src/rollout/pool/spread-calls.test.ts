import { expect, it } from 'vitest';
import type { CompletionCall } from '../endpoint.ts';
import { spreadCalls } from './spread-calls.ts';

const callOf = (id: number): CompletionCall => ({
  model: 'm',
  promptIds: [id],
  maxTokens: 1,
  temperature: 1,
  seed: 1,
  stopTokenIds: [],
});

it('asks the servers in rotation only, all of them, and each is opened once', async () => {
  let urls = ['http://a', 'http://b'];
  const opened: string[] = [];
  const asked: string[] = [];
  const { complete } = spreadCalls(
    () => urls,
    (url) => {
      opened.push(url);
      return {
        complete: async (call) => {
          asked.push(url);
          return { ...call, outputIds: [1], logprobs: [0], finishReason: 'stop', text: '' };
        },
      };
    },
  );
  for (let id = 0; id < 50; id++) await complete(callOf(id));
  expect(new Set(asked)).toEqual(new Set(urls));
  urls = ['http://b'];
  asked.length = 0;
  for (let id = 0; id < 50; id++) await complete(callOf(id));
  expect(new Set(asked)).toEqual(new Set(urls));
  expect(opened.sort()).toEqual(['http://a', 'http://b']);
});

it('leaves a server that is busy, and counts a failed call as over', async () => {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const asked = new Map<string, number>();
  const { complete } = spreadCalls(
    () => ['http://a', 'http://b'],
    (url) => ({
      complete: async () => {
        asked.set(url, (asked.get(url) ?? 0) + 1);
        await gate;
        throw new Error('broken');
      },
    }),
  );
  const calls = Array.from({ length: 40 }, () => complete(callOf(7)).catch(() => 'failed'));
  expect(Math.min(...asked.values())).toBeGreaterThan(5);
  expect(asked.size).toBe(2);
  open();
  expect(await Promise.all(calls)).toEqual(Array(40).fill('failed'));
  asked.clear();
  await complete(callOf(7)).catch(() => {});
  await complete(callOf(7)).catch(() => {});
  expect(asked.size).toBe(1);
});
