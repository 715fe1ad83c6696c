import { expect, it } from 'vitest';
import { judgeAnswer } from './judgment.ts';

const settings = { maxTokens: 9, temperature: 0 };
const asked = { query: 'q', answer: { kind: 'text' as const, text: 'x' } };
const judged = (chat: () => Promise<string>) =>
  judgeAnswer({ ...settings, chat: { name: 'c', chat } }, asked, { rounds: [], answer: null });
const judgedBy = (text: string) => judged(async () => text);

it('grades from 1 to 4 are read as shares', async () => {
  expect(await judgedBy('因此：{"accuracy":4,"support":2}')).toEqual({ accuracy: 1, support: 1 / 3 });
  const thought = '<think>{"accuracy":1,"support":1}? 不对。</think>{"accuracy":3,"support":4}';
  expect(await judgedBy(thought)).toEqual({ accuracy: 2 / 3, support: 1 });
});

it('rejects for what are no grades and when the model fails, and never makes one up', async () => {
  for (const text of [
    '',
    '4',
    '我不知道',
    '{"accuracy":5,"support":1}',
    '{"accuracy":"4","support":1}',
    '{"accuracy":4}',
    // What a thought tries out is no answer.
    '<think>{"accuracy":4,"support":4}</think>我不能判断。',
  ])
    await expect(judgedBy(text)).rejects.toThrow(/^c: no two grades/);
  await expect(judged(() => Promise.reject(new Error('down')))).rejects.toThrow('down');
});
