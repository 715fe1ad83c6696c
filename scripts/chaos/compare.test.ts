import { describe, expect, it } from 'vitest';
import { compareRuns } from './compare.ts';

type Rows = Parameters<typeof compareRuns>[1];
const rows = (): Rows[number][] =>
  [1, 2].flatMap((step) =>
    ['a', 'b'].flatMap((queryId) =>
      [0, 1, 2].map((member) => ({
        step,
        queryId,
        member,
        calls: [],
        ledger: { terms: [], total: step + member / 10 },
      })),
    ),
  );
const expected = { steps: 2, questions: 2, members: 3 };

describe('compareRuns', () => {
  it('finds nothing between a run and itself', () => {
    expect(compareRuns(expected, rows(), new Map(), rows())).toMatchObject({
      ...{ expected: 12, ok: 12, lost: 0, duplicated: 0, completeGroups: 4, shortGroups: 0 },
      ...{ comparedSteps: 2, compared: 12, otherRewards: 0, otherTokens: 0 },
    });
  });

  it('sees what is missing, twice, or another', () => {
    const missing = compareRuns(expected, rows().slice(1), new Map(), rows());
    expect(missing).toMatchObject({ lost: 1, completeGroups: 3, shortGroups: 1 });
    const twice = compareRuns(expected, [...rows(), rows()[0]!], new Map(), rows());
    expect(twice).toMatchObject({ duplicated: 1, lost: 0 });
    const changed = rows();
    changed[3] = { ...changed[3]!, ledger: { terms: [], total: 9 } };
    expect(compareRuns(expected, changed, new Map(), rows())).toMatchObject({ otherRewards: 1 });
    expect(compareRuns(expected, rows(), new Map(), rows().slice(0, 11))).toMatchObject({ otherRewards: 1 });
  });

  it('compares up to the first step with a failed member, which is not lost', () => {
    const later = rows().map((row) => (row.step === 2 ? { ...row, ledger: { terms: [], total: 7 } } : row));
    const verdict = compareRuns(expected, later.slice(1), new Map([[1, 1]]), rows());
    expect(verdict).toMatchObject({ lost: 0, failed: 1, comparedSteps: 1, compared: 5, otherRewards: 0 });
  });
});
