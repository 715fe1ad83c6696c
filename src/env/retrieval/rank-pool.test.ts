import { expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import type { Hit } from '../types.ts';
import { rankPool } from './rank-pool.ts';

const hits = (...pairs: [string, number][]): Hit[] => pairs.map(([id, score]) => ({ id, score }));

test('lists are dealt out by best place, then best score, then id', () => {
  const first = hits(['a', 0.9], ['b', 0.8], ['c', 0.3]);
  const second = hits(['d', 0.5], ['c', 0.45], ['e', 0.3]);
  // Places: a 1, d 1, b 2, c 2 (in the second list), e 3.
  expect(rankPool([first, second])).toEqual(['a', 'd', 'b', 'c', 'e']);
  expect(rankPool([hits(['z', 1]), hits(['y', 1]), hits(['x', 1])])).toEqual(['x', 'y', 'z']);
});

test('one list keeps its order; no list gives no pool', () => {
  expect(rankPool([hits(['b', 0.2], ['a', 0.9])])).toEqual(['b', 'a']);
  expect(rankPool([])).toEqual([]);
  expect(rankPool([[], []])).toEqual([]);
});

test('neither the order of the searches nor a repeated one changes anything', () => {
  const random = stream(1, 'rank-pool');
  for (let round = 0; round < 200; round++) {
    const lists = Array.from({ length: 1 + random.int(4) }, () =>
      random
        .shuffle(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
        .slice(0, random.int(8))
        .map((id) => ({ id, score: random.int(5) / 4 }))
        .sort((x, y) => y.score - x.score),
    );
    const pool = rankPool(lists);
    expect(new Set(pool)).toEqual(new Set(lists.flat().map((hit) => hit.id)));
    expect(pool.length).toBe(new Set(pool).size);
    expect(rankPool(random.shuffle(lists))).toEqual(pool);
    expect(rankPool([...lists, lists[random.int(lists.length)]!])).toEqual(pool);
  }
});
