import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { judge, type Proof, PublishError, type ServedAdapter, sameRoot } from './proof.ts';

const random = stream(1, 'proof');
const vector = (spread: number): number[] => Array.from({ length: 40 }, () => spread * random.normal());
const plus = (a: number[], b: number[]): number[] => a.map((x, i) => x + b[i]!);
const base = vector(1).map((x) => -3 - Math.abs(x));
const proofOf = (policy: number[]): Proof => ({ ids: Array.from({ length: 41 }, (_, i) => i), policy, base });
const olderOf = (policy: number[]): ServedAdapter => ({
  version: 1,
  name: 'run-v1',
  folder: '/a/run-v1',
  proof: proofOf(policy),
});

function verdict(policy: number[], served: number[], tolerance: number, older: ServedAdapter[] = []): string {
  try {
    judge({ name: 'run-v2' }, proofOf(policy), served, { tolerance, older });
    return 'proved';
  } catch (error) {
    if (!(error instanceof PublishError)) throw error;
    return error.problem;
  }
}

describe('judge', () => {
  it('under a tolerance wider than the step: tells policy, base model and older version apart by direction', () => {
    for (let i = 0; i < 200; i++) {
      const older = plus(base, vector(0.05));
      const policy = plus(older, vector(0.05));
      const noise = vector(0.01);
      const at = (from: number[]) => verdict(policy, plus(from, noise), 0.5, [olderOf(older)]);
      expect(at(policy)).toBe('proved');
      expect(at(older)).toBe('equals-older');
      expect(at(base)).toBe('equals-base');
    }
  });

  it('takes noise for noise, however near base model and older version are', () => {
    for (const step of [0.03, 0.01, 0.001, 0])
      for (let i = 0; i < 200; i++) {
        const policy = plus(base, vector(step));
        expect(verdict(policy, plus(policy, vector(0.02)), 0.5, [olderOf(base)]), `${step}`).toBe('proved');
      }
  });

  it('finds weights without effect although their step is far below the tolerance', () => {
    const policy = plus(base, vector(1e-4));
    expect(verdict(policy, base, 0.25)).toBe('equals-base');
    expect(verdict(policy, plus(policy, vector(1e-6)), 0.25)).toBe('proved');
  });

  it('what is neither is told as a difference', () => {
    const policy = plus(base, vector(0.1));
    expect(verdict(policy, plus(policy, vector(2)), 0.25)).toBe('differs-from-learner');
    expect(verdict(policy, policy.slice(1), 0.25)).toBe('differs-from-learner');
  });

  it('an older version that was asked about another prompt is no rival, nor is the adapter itself', () => {
    const policy = plus(base, vector(0.1));
    const other = { ...olderOf(policy), proof: { ...proofOf(policy), ids: [1, 2] } };
    const same = { ...olderOf(policy), name: 'run-v2' };
    expect(verdict(policy, plus(policy, vector(0.01)), 0.25, [other, same])).toBe('proved');
  });
});

it('sameRoot: a slash at the end is nothing, a server that tells none is believed', () => {
  expect(sameRoot('/a/b/', '/a/b')).toBe(true);
  expect(sameRoot(null, '/a/b')).toBe(true);
  expect(sameRoot('/a/c', '/a/b')).toBe(false);
  expect(sameRoot('/', '/')).toBe(true);
});
