import { describe, expect, it } from 'vitest';
import type { Round } from '../episode.ts';
import type { Action } from './agents.ts';
import { summarisePool } from './pool-summary.ts';
import {
  isCapReached,
  isDiminishing,
  isEmptyPool,
  isSameAgentWithoutGrowth,
  isWithoutGrowth,
  stopAfter,
  stopBefore,
} from './stop-rules.ts';
import { malrConfig as config } from './test-support.ts';

/** Rounds that bring so many new articles each. */
function roundsOf(...growth: number[]): Round[] {
  let poolSize = 0;
  return growth.map((n, round) => {
    poolSize += n;
    const newIds = Array.from({ length: n }, (_, i) => `${round}-${i}`);
    return { agent: 'repair', queries: ['q'], dropped: [], newIds, poolSize };
  });
}

describe('each rule', () => {
  it('diminishing returns: fewer than two new', () => {
    expect([0, 1, 2, 3].map((n) => isDiminishing(roundsOf(9, n)))).toEqual([true, true, false, false]);
    expect(isDiminishing([])).toBe(false);
  });

  it('empty pool after the first round', () => {
    expect(isEmptyPool([])).toBe(false);
    expect(isEmptyPool(roundsOf(0))).toBe(true);
    expect(isEmptyPool(roundsOf(1))).toBe(false);
    expect(isEmptyPool(roundsOf(1, 0))).toBe(false);
  });

  it('rounds in a row without growth', () => {
    expect(isWithoutGrowth(roundsOf(5, 0), 2)).toBe(false);
    expect(isWithoutGrowth(roundsOf(5, 0, 0), 2)).toBe(true);
    expect(isWithoutGrowth(roundsOf(5, 0, 1, 0), 2)).toBe(false);
    expect(isWithoutGrowth(roundsOf(0), 2)).toBe(false);
    expect(isWithoutGrowth(roundsOf(5, 0), 1)).toBe(true);
  });

  it('same agent again without growth', () => {
    expect(isSameAgentWithoutGrowth(roundsOf(5, 0), 'repair')).toBe(true);
    expect(isSameAgentWithoutGrowth(roundsOf(5, 0), 'decompose')).toBe(false);
    expect(isSameAgentWithoutGrowth(roundsOf(5, 1), 'repair')).toBe(false);
    expect(isSameAgentWithoutGrowth([], 'repair')).toBe(false);
  });

  it('cap', () => {
    expect(isCapReached(roundsOf(1, 1, 1), 4)).toBe(false);
    expect(isCapReached(roundsOf(1, 1, 1, 1), 4)).toBe(true);
  });
});

describe('in order', () => {
  it('terminate is the planner’s end, before any search an invalid one', () => {
    expect(stopBefore(roundsOf(5), 'terminate', config)).toEqual({ kind: 'planner', reason: 'terminate' });
    expect(stopBefore([], 'terminate', config)).toEqual({
      kind: 'invalid',
      reason: 'terminate before any search',
    });
    const early = { ...config, allowEarlyTerminate: true };
    expect(stopBefore([], 'terminate', early)).toEqual({ kind: 'planner', reason: 'terminate' });
  });

  it('an action runs unless its agent just failed to find anything', () => {
    expect(stopBefore([], 'repair', config)).toBeNull();
    expect(stopBefore(roundsOf(3), 'repair', config)).toBeNull();
    expect(stopBefore(roundsOf(3, 0), 'repair', config)?.kind).toBe('no-growth');
    expect(stopBefore(roundsOf(3, 0), 'original', config)).toBeNull();
  });

  it.each([
    [[5], null],
    [[5, 1], null],
    [[5, 0], null],
    [[0], 'no-growth: empty pool'],
    [[5, 0, 0], 'no-growth: 2 rounds without growth'],
    [[5, 5, 5, 5], 'cap: 4 rounds'],
    [[5, 5, 0, 0], 'no-growth: 2 rounds without growth'],
    [[5, 0, 5, 0], 'cap: 4 rounds'],
  ])('after growth of %j: %s', (growth, expected) => {
    const end = stopAfter(roundsOf(...growth), config);
    expect(end && `${end.kind}: ${end.reason}`).toBe(expected);
  });

  it('diminishing returns end the episode only when set to', () => {
    const strict = { ...config, diminishing: 'stop' as const };
    expect(stopAfter(roundsOf(5, 1), strict)).toEqual({ kind: 'no-growth', reason: 'diminishing returns' });
    expect(stopAfter(roundsOf(1), strict)).toEqual({ kind: 'no-growth', reason: 'diminishing returns' });
    expect(stopAfter(roundsOf(5, 2), strict)).toBeNull();
  });
});

describe('summarisePool', () => {
  it('is empty before the first round', () => {
    expect(summarisePool([], [], () => undefined)).toEqual({
      round: 0,
      count: 0,
      diversity: 0,
      growth: 0,
      diminishing: false,
      agents: [],
    });
  });

  it('counts laws over articles, an article without a law as its own', () => {
    const laws: Record<string, string> = { a: '民法典', b: '民法典', c: '刑法' };
    const summary = summarisePool(['a', 'b', 'c', 'd'], roundsOf(3, 1), (id) => laws[id]);
    expect(summary).toEqual({
      round: 2,
      count: 4,
      diversity: 0.75,
      growth: 1,
      diminishing: true,
      agents: ['repair', 'repair'] satisfies Action[],
    });
  });
});
