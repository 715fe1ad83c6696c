import { expect, test } from 'vitest';
import { evaluationTable, formatTable } from './tables.ts';

test('columns are aligned by width, also with Chinese text', () => {
  expect(
    formatTable(
      ['题', 'n'],
      [
        ['法律', '1'],
        ['abc', null],
        ['a', '100'],
      ],
    ),
  ).toBe(['题      n', '法律    1', 'abc     -', 'a     100'].join('\n'));
});

test('words stand to the left, numbers and intervals to the right', () => {
  const text = formatTable(
    ['gain', 'over', '95 %'],
    [
      ['after', 'before', '[-1.0, +2.0]'],
      ['after', 'single-pass', '[+10.0, +12.5]'],
    ],
  );
  expect(text.split('\n')).toEqual([
    'gain   over                   95 %',
    'after  before         [-1.0, +2.0]',
    'after  single-pass  [+10.0, +12.5]',
  ]);
});

test('an evaluation shows three metrics at k for all, and the rest for a policy', () => {
  const text = evaluationTable(5, [
    { name: 'single pass', figures: { recall: 0.5, mrr: 0.25, ndcg: 0.3333 } },
    {
      name: 'step 10',
      figures: {
        recall: 0.6125,
        mrr: 0.3,
        ndcg: 0.4,
        invalidRate: 0.0125,
        meanRounds: 2.345,
        meanPool: 18.04,
      },
    },
  ]);
  const [head, single, policy] = text.split('\n').map((line) => line.split(/ {2,}/));
  expect(head).toEqual(['held-out', 'recall@5', 'mrr@5', 'ndcg@5', 'invalid', 'rounds', 'pool']);
  expect(single).toEqual(['single pass', '0.500', '0.250', '0.333', '-', '-', '-']);
  expect(policy).toEqual(['step 10', '0.613', '0.300', '0.400', '1.3 %', '2.35', '18.0']);
});
