import { expect, test } from 'vitest';
import { splitBySeenGold } from './seen-gold.ts';

test('seen: at least one gold article is gold in training', () => {
  const question = (...gold: string[]) => ({ id: gold.join(), query: 'q', gold });
  const train = [question('a', 'b'), question('c')];
  const asked = [question('x', 'b'), question('c'), question('x', 'y'), question('y', 'a')];
  expect(splitBySeenGold(train, asked)).toEqual({ seen: [0, 1, 3], unseen: [2] });
});
