import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { corpusOf } from './corpus.ts';
import { loadQueries } from './queries.ts';

const folder = temporaryFolder();

const corpus = corpusOf(['a1', 'a2', 'a3'].map((id) => ({ id, title: id, text: id })));

function file(...lines: unknown[]): string {
  const path = join(folder, 'queries.jsonl');
  writeFileSync(path, lines.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n'));
  return path;
}

const good = { id: 'q1', query: '押金不退', gold: ['a1', 'a3'] };

test('questions in file order', async () => {
  const second = { id: 'q2', query: 'deposit', gold: ['a2'] };
  expect(await loadQueries(file(good, { ...second, note: 'left out' }), corpus)).toEqual([good, second]);
});

test.each([
  [
    'unknown gold',
    { ...good, id: 'q2', gold: ['a1', 'a9'] },
    /:2: gold article "a9" of "q2" is not in the corpus/,
  ],
  ['gold twice', { ...good, id: 'q2', gold: ['a1', 'a1'] }, /:2: gold article "a1" of "q2" is listed twice/],
  ['duplicate id', good, /:2: duplicate id "q1", first on line 1/],
  ['empty question', { ...good, id: 'q2', query: ' ' }, /:2: "query": the question must not be empty/],
  ['empty gold', { ...good, id: 'q2', gold: [] }, /:2: "gold": at least one gold/],
  ['no gold', { id: 'q2', query: 'x' }, /:2: "gold"/],
  ['gold of numbers', { ...good, id: 'q2', gold: [1] }, /:2: "gold.0"/],
  ['broken line', '{"id": "q2", ', /:2: not valid JSON/],
])('%s is refused', async (_, line, expected) => {
  const error = await loadQueries(file(good, line), corpus).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UserError);
  expect((error as Error).message).toMatch(expected);
});

test('without gold a question needs an answer that is no articles, and only where gold is optional', async () => {
  const choice = { id: 'q2', query: '选哪个', answer: { kind: 'choice', choices: ['A'] } };
  expect(await loadQueries(file(good, choice), corpus, 'optional')).toEqual([good, { ...choice, gold: [] }]);
  await expect(loadQueries(file(good, choice), corpus)).rejects.toThrow(/:2: "gold"/);
  for (const line of [
    { id: 'q2', query: 'x' },
    { id: 'q2', query: 'x', gold: [], answer: { kind: 'articles' } },
  ])
    await expect(loadQueries(file(good, line), corpus, 'optional')).rejects.toThrow(
      /:2: "gold": at least one gold article id is needed, or an answer that is no articles/,
    );
});

test('all problems are listed at once', async () => {
  const bad = [
    { ...good, gold: ['b', 'c'] },
    { ...good, id: 'q2', query: '' },
  ];
  const error = await loadQueries(file(...bad), corpus).catch((thrown: unknown) => thrown);
  expect((error as Error).message).toMatch(
    /3 problems\n {2}line 1: .*"b".*\n {2}line 1: .*"c".*\n {2}line 2: /,
  );
});

test('an empty file is refused', async () => {
  await expect(loadQueries(file(), corpus)).rejects.toThrow(/there are no questions/);
});
