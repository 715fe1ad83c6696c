import { expect, it } from 'vitest';
import type { Round } from '../../env/episode.ts';
import { queryQuality } from './query-quality.ts';

const ALLOWANCE = 48;
const asked = (...queries: string[]): { rounds: Round[] } => ({
  rounds: queries.map((query) => ({
    agent: 'STATUTE',
    queries: [query],
    dropped: [],
    newIds: [],
    poolSize: 0,
  })),
});
const value = (ranks: (number | null)[], ...queries: string[]): number =>
  queryQuality(asked(...queries), ranks, ALLOWANCE);

it('is the mean over the gold of 1 / log2(2 + rank / 3); 0 for what no query finds', () => {
  expect(value([0], '盗窃')).toBe(1);
  expect(value([6], '盗窃')).toBe(0.5);
  expect(value([42], '盗窃')).toBe(0.25);
  expect(value([0, 6, null, null], '盗窃')).toBe(0.375);
  expect(value([null], '盗窃')).toBe(0);
});

it('falls as allowance / length beyond the allowance, in characters, not code units', () => {
  expect(value([0], '盗'.repeat(48))).toBe(1);
  expect(value([0], '𠮷'.repeat(48))).toBe(1);
  expect(value([0], '盗'.repeat(96))).toBe(0.5);
  expect(value([0], '盗'.repeat(480))).toBe(0.1);
});

it('short queries beside a stuffed one do not buy its cost back, whatever their number and order', () => {
  const stuffed = '盗窃抢劫诈骗'.repeat(16);
  for (const rank of [0, 3, 40]) {
    const alone = value([rank], stuffed);
    expect(value([rank], stuffed, '法')).toBeLessThanOrEqual(alone);
    expect(value([rank], '法', '人', '罪', stuffed, '的')).toBeLessThanOrEqual(alone);
  }
});

it('is of statute queries that were made only', () => {
  expect(value([0])).toBe(0);
  const { rounds } = asked('盗窃');
  const precedent = { ...rounds[0]!, agent: 'PRECEDENT', queries: ['盗'.repeat(480)] };
  const refused = { ...rounds[0]!, queries: [], dropped: [{ query: '盗'.repeat(480), reason: 'repeated' }] };
  expect(queryQuality({ rounds: [precedent] }, [0], ALLOWANCE)).toBe(0);
  expect(queryQuality({ rounds: [...rounds, precedent, refused] }, [0], ALLOWANCE)).toBe(1);
});
