import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { type AdvantageConfig, groupAdvantages, type MemberReward } from './advantage.ts';

const plain: AdvantageConfig = {
  scale: 'group',
  leaveOneOut: false,
  validity: 'joint',
  tolerance: 1e-6,
  stdFloor: 0,
};
const members = (...rest: number[]): MemberReward[] => rest.map((r) => ({ rest: r, validity: 0 }));
const one = (group: MemberReward[], config: Partial<AdvantageConfig> = {}): number[] => {
  const [result] = groupAdvantages([group], { ...plain, ...config });
  if (result!.kind === 'dropped') throw new Error(result!.reason);
  return result!.advantages;
};

/** The eight rewards on which one −5 was seen to erase the ranking. */
const VALID = [0.5, 0.6, 0.7, 0.8, 0.4, 0.6, 0.7];

describe('groupAdvantages', () => {
  it('divides by the population standard deviation of the group', () => {
    const a = one(members(...VALID, 0.65));
    expect(a[4]).toBeCloseTo(-1.868, 3);
    expect(a[3]).toBeCloseTo(1.548, 3);
    expect(a.reduce((x, y) => x + y)).toBeCloseTo(0, 10);
  });

  it('joint: one −5 among eight makes every valid member positive and nearly equal', () => {
    const a = one([...members(...VALID), { rest: 0, validity: -5 }]);
    expect(a[7]).toBeCloseTo(-2.64, 2);
    expect(Math.min(...a.slice(0, 7))).toBeCloseTo(0.26, 2);
    expect(Math.max(...a.slice(0, 7))).toBeCloseTo(0.48, 2);
  });

  it('separate: the valid members keep the spread they have among themselves', () => {
    const a = one([...members(...VALID), { rest: 0, validity: -5 }], { validity: 'separate' });
    const alone = one(members(...VALID));
    for (let i = 0; i < 7; i++) expect(a[i]! - a[0]!).toBeCloseTo(alone[i]! - alone[0]!, 6);
    expect(a[7]!).toBeLessThan(Math.min(...a.slice(0, 7)));
  });

  it('drops a group whole when max − min is within the tolerance, float noise included', () => {
    const noisy = members(0.3, 0.3 + 1e-9, 0.3 - 1e-9, 0.3);
    expect(groupAdvantages([noisy], { ...plain, leaveOneOut: true })).toEqual([
      { kind: 'dropped', reason: 'no variance' },
    ]);
    expect(groupAdvantages([members(1)], plain)).toEqual([{ kind: 'dropped', reason: 'too few members' }]);
  });

  it('keeps [1,0,0,0] whole under leave-one-out', () => {
    expect(one(members(1, 0, 0, 0), { scale: 'none', leaveOneOut: true })).toEqual([
      1,
      -1 / 3,
      -1 / 3,
      -1 / 3,
    ]);
  });

  it('leave-one-out stretches the distance from the mean, not the standard deviation that divides it', () => {
    const [a] = one(members(1, 2, 3), { leaveOneOut: true });
    expect(a).toBeCloseTo(-1.5 / Math.sqrt(2 / 3), 10);
  });

  it('a spread of exactly the tolerance is none, with a tolerance of 0 too', () => {
    for (const tolerance of [0, 0.5])
      expect(groupAdvantages([members(1, 1 + tolerance)], { ...plain, tolerance })).toEqual([
        { kind: 'dropped', reason: 'no variance' },
      ]);
    const group = [...members(1, 1), { rest: 0, validity: -5 }];
    for (const a of one(group, { validity: 'separate', tolerance: 0 })) expect(a).not.toBeNaN();
  });

  it('does not amplify a near tie beyond the floor', () => {
    const a = one(members(0, 0, 0, 0, 0, 0, 0, 1e-3), { stdFloor: 0.05 });
    expect(Math.max(...a.map(Math.abs))).toBeLessThan(0.02);
  });

  it('batch scale: one divisor for all groups; none: centred rewards', () => {
    const groups = [members(0, 1), members(0, 0.1)];
    const batch = groupAdvantages(groups, { ...plain, scale: 'batch' });
    const std = Math.sqrt((0.25 + 0.25 + 0.0025 + 0.0025) / 4);
    expect(batch[0]).toEqual({ kind: 'kept', advantages: [-0.5 / std, 0.5 / std] });
    const none = groupAdvantages(groups, { ...plain, scale: 'none' });
    expect(none[1]).toEqual({ kind: 'kept', advantages: [-0.05, 0.05] });
  });

  it('is invariant to the order of groups and members, and centred', () => {
    const random = stream(3, 'advantage');
    for (let round = 0; round < 100; round++) {
      const group = Array.from({ length: 8 }, () => ({
        rest: random.next(),
        validity: random.next() < 0.2 ? -5 : 0,
      }));
      for (const validity of ['joint', 'separate'] as const) {
        const a = one(group, { validity });
        const b = one([...group].reverse(), { validity });
        for (let i = 0; i < 8; i++) expect(b[7 - i]).toBeCloseTo(a[i]!, 9);
        expect(a.reduce((x, y) => x + y)).toBeCloseTo(0, 9);
      }
    }
  });

  it('refuses a reward that is not finite', () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => groupAdvantages([members(bad, 1)], plain)).toThrow(/not finite/);
      const validity = { rest: 0, validity: bad };
      expect(() => groupAdvantages([[validity, ...members(1)]], plain)).toThrow(/not finite/);
    }
  });
});
