import { expect, it } from 'vitest';
import { judgeAnswer, needsJudgment, whyJudged } from './judgment.ts';

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

it('is needed for texts and where there is no gold, and is told the answer that is expected', async () => {
  const choice = { kind: 'choice' as const, choices: ['A', 'C'] };
  const asked = [
    { gold: ['a'], answer: choice },
    { gold: ['a'] },
    { gold: [], answer: choice },
    { gold: ['a'], answer: { kind: 'text' as const, text: 'x' } },
  ];
  expect(asked.map(needsJudgment)).toEqual([false, false, true, true]);
  expect([whyJudged(asked[2]!), whyJudged(asked[3]!)]).toEqual([
    expect.stringContaining('no gold'),
    expect.stringContaining('kind text'),
  ]);
  const seen: string[] = [];
  const chat = async (messages: readonly { content: string }[]) => {
    seen.push(messages[1]!.content);
    return '{"accuracy":1,"support":1}';
  };
  for (const answer of [choice, { kind: 'number' as const, value: 36, tolerance: 4 }])
    await judgeAnswer(
      { ...settings, chat: { name: 'c', chat } },
      { query: 'q', answer },
      { rounds: [], answer: null },
    );
  expect(seen[0]).toContain('Expected: A, C\n');
  expect(seen[1]).toContain('Expected: 36 (right within 4)\n');
});
