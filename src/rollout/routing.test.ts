import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { chooseReplica } from './routing.ts';

const named = (...loads: number[]) => loads.map((inFlight, i) => ({ name: `http://10.0.0.${i}`, inFlight }));
const random = stream(1, 'prompts');
const prompts = Array.from({ length: 400 }, () => Array.from({ length: 20 }, () => random.int(1000)));

describe('chooseReplica', () => {
  it('gives the only one, and undefined for none', () => {
    expect(chooseReplica([], [1])).toBeUndefined();
    expect(chooseReplica(named(99), [1])?.inFlight).toBe(99);
  });

  it('sends a prompt to the same replica each time, in whatever order they are listed', () => {
    for (const prompt of prompts.slice(0, 50)) {
      const home = chooseReplica(named(0, 0, 0), prompt)!.name;
      expect(chooseReplica(named(3, 3, 3).reverse(), prompt)!.name).toBe(home);
    }
  });

  it('spreads different prompts about evenly, also those that differ in one token', () => {
    const shares = (all: number[][]) => {
      const count = new Map<string, number>();
      for (const prompt of all) {
        const { name } = chooseReplica(named(0, 0, 0, 0), prompt)!;
        count.set(name, (count.get(name) ?? 0) + 1);
      }
      return [...count.values()];
    };
    const near = prompts.map((_, i) => [5, 6, 7, i]);
    for (const all of [prompts, near]) {
      expect(shares(all)).toHaveLength(4);
      // 100 each; five standard deviations are 43.
      for (const share of shares(all)) expect(Math.abs(share - 100)).toBeLessThan(44);
    }
  });

  it('moves only the prompts of a replica that left', () => {
    const all = named(0, 0, 0);
    for (const prompt of prompts) {
      const home = chooseReplica(all, prompt)!;
      const rest = all.filter(({ name }) => name !== all[1]!.name);
      if (home !== all[1]) expect(chooseReplica(rest, prompt)).toBe(home);
    }
  });

  it('leaves the home when it has 8 calls and a quarter more than the least busy one', () => {
    const prompt = prompts[0]!;
    const home = named(0, 0).findIndex((one) => one.name === chooseReplica(named(0, 0), prompt)!.name);
    const at = (own: number, other: number) => {
      const loads = home === 0 ? [own, other] : [other, own];
      return chooseReplica(named(...loads), prompt)!.inFlight === own;
    };
    expect(at(8, 0)).toBe(true);
    expect(at(9, 0)).toBe(false);
    expect(at(133, 100)).toBe(true);
    expect(at(134, 100)).toBe(false);
  });
});
