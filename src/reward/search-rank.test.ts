import { describe, expect, it } from 'vitest';
import { searchRank } from './search-rank.ts';

describe('searchRank', () => {
  it('counts ranks from 0 over the whole corpus, 0 where nothing was searched, the mean over gold', () => {
    expect(searchRank([0])).toBe(1);
    expect(searchRank([6])).toBe(0.5);
    expect(searchRank([90])).toBe(1 / 5);
    expect(searchRank([6, null])).toBe(0.25);
  });

  it('falls with every rank, far below any pool too', () => {
    for (let rank = 1; rank < 300; rank++) expect(searchRank([rank])).toBeLessThan(searchRank([rank - 1]));
  });
});
