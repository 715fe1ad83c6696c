import { describe, expect, it } from 'vitest';
import { type Random, stream } from '../base/random.ts';
import type { Round, Termination } from '../env/episode.ts';
import type { RewardConfig } from './config.ts';
import { roundReturns, type Scored, scoreEpisode, TERM_ORDER } from './ledger.ts';
import { ledgerSchema } from './ledger-schema.ts';

/** An episode whose rounds find these ids; the pool is all of them in order unless given. */
function episodeOf(
  newIds: string[][],
  kind: Termination['kind'] = 'planner',
  pool: string[] = newIds.flat(),
): Scored {
  let poolSize = 0;
  const rounds: Round[] = newIds.map((ids) => {
    poolSize += ids.length;
    return { agent: 'repair', queries: ['q'], dropped: [], newIds: ids, poolSize };
  });
  return { rounds, pool, termination: { kind, reason: 'test' } };
}

/** The paper's terms alone, as the schema has them by default. */
const config: RewardConfig = {
  recallAt: null,
  weights: { recall: 1, step: -0.05, hit: 0.2, invalid: -5, rank: 0, marginal: 0, searchRank: 0 },
};

const weighted = (
  weights: Partial<RewardConfig['weights']>,
  recallAt: number | null = null,
): RewardConfig => ({
  recallAt,
  weights: { ...config.weights, ...weights },
});
const values = (episode: Scored, gold: string[], settings = config, originalIds: string[] | null = null) =>
  Object.fromEntries(
    scoreEpisode(episode, gold, settings, originalIds ? { originalIds } : {}).terms.map((term) => [
      term.name,
      term.value,
    ]),
  );

/** All that the terms may need; the gold articles rank where the first ids do. */
const factsOf = (originalIds: string[]) => ({ originalIds, goldRanks: [originalIds.length, null] });
const returnsOf = (episode: Scored, gold: string[], settings: RewardConfig, originalIds: string[] = []) => {
  const ledger = scoreEpisode(episode, gold, settings, factsOf(originalIds));
  return roundReturns({ ...episode, ledger }, gold, settings);
};

describe('scoreEpisode', () => {
  it('adds up a case computed by hand', () => {
    // Four gold, two found in the first of three rounds, one in the third.
    const episode = episodeOf([['g1', 'x', 'g2'], [], ['g3', 'y']]);
    const ledger = scoreEpisode(
      episode,
      ['g1', 'g2', 'g3', 'g4'],
      weighted({ hit: 0.2, rank: 0.5, marginal: 2 }),
      { originalIds: ['g1', 'z', 'g4'] },
    );
    const rank = (1 + 1 / Math.log2(2 + 2 / 3) + 1 / Math.log2(3)) / 4;
    expect(ledger.terms).toEqual([
      { name: 'recall', raw: 0.75, weight: 1, value: 0.75 },
      { name: 'step', raw: 3, weight: -0.05, value: 3 * -0.05 },
      { name: 'hit', raw: 0.75, weight: 0.2, value: 0.75 * 0.2 },
      { name: 'invalid', raw: 0, weight: -5, value: 0 },
      { name: 'rank', raw: rank, weight: 0.5, value: rank * 0.5 },
      { name: 'marginal', raw: 0.5, weight: 2, value: 1 },
    ]);
    expect(ledger.total).toBeCloseTo(0.75 - 0.15 + 0.15 + rank / 2 + 1, 12);
  });

  it('keeps terms of weight 0, without paying them', () => {
    const ledger = scoreEpisode(episodeOf([['g1']]), ['g1'], config);
    expect(ledger.terms.map((term) => term.name)).toEqual(['recall', 'step', 'hit', 'invalid', 'rank']);
    expect(ledger.terms.at(-1)).toEqual({ name: 'rank', raw: 1, weight: 0, value: 0 });
  });

  it('stops at k of the ranked pool where it is set to', () => {
    const episode = episodeOf([['x', 'g1', 'g2']]);
    expect(values(episode, ['g1', 'g2'], weighted({}, 2)).recall).toBe(0.5);
    expect(values(episode, ['g1', 'g2']).recall).toBe(1);
  });

  it('counts a repeated gold id once', () => {
    expect(values(episodeOf([['g1', 'x']]), ['g1', 'g1', 'g2']).recall).toBe(0.5);
  });

  it('refuses what cannot be scored', () => {
    expect(() => scoreEpisode(episodeOf([['x']]), [], config)).toThrow('without gold');
    expect(() => scoreEpisode(episodeOf([['x']]), ['x'], weighted({ marginal: 1 }))).toThrow(
      'marginal has a weight',
    );
    expect(() => scoreEpisode(episodeOf([['x']]), ['x'], weighted({ recall: Number.NaN }))).toThrow('NaN');
  });
});

describe('the economics of a search', () => {
  it('stopping at once loses to one useful search, up to 23 gold articles, the most of a STARD question', () => {
    for (let n = 1; n <= 23; n++) {
      const gold = Array.from({ length: n }, (_, i) => `g${i}`);
      const stopped = scoreEpisode(episodeOf([]), gold, config).total;
      const searched = scoreEpisode(episodeOf([['x', 'g0']]), gold, config).total;
      expect(searched).toBeGreaterThan(stopped);
      const { recall, hit } = values(episodeOf([['x', 'g0']]), gold) as { recall: number; hit: number };
      expect(hit + recall).toBeGreaterThan(0.05);
    }
  });

  it('a useless search costs exactly its step', () => {
    const once = scoreEpisode(episodeOf([['g1']]), ['g1', 'g2'], config).total;
    const twice = scoreEpisode(episodeOf([['g1'], ['x', 'y']]), ['g1', 'g2'], config).total;
    expect(twice - once).toBeCloseTo(-0.05, 12);
  });

  it('−5 falls on an invalid end only, once, whatever the rounds', () => {
    for (const rounds of [[], [['g1']], [['g1'], [], ['x']]]) {
      const valid = scoreEpisode(episodeOf(rounds, 'planner'), ['g1'], config);
      for (const kind of ['cap', 'no-growth'] as const)
        expect(scoreEpisode(episodeOf(rounds, kind), ['g1'], config)).toEqual(valid);
      const broken = scoreEpisode(episodeOf(rounds, 'invalid'), ['g1'], config);
      expect(broken.total - valid.total).toBeCloseTo(-5, 12);
      expect(broken.terms.filter((term) => term.value === -5)).toHaveLength(1);
    }
  });

  it('never pays the same gold twice', () => {
    const once = episodeOf([['g1'], ['x']]);
    const again = episodeOf([['g1'], ['g1']], 'planner', ['g1', 'x']);
    expect(values(again, ['g1', 'g2']).hit).toBe(values(once, ['g1', 'g2']).hit);
    expect(values(episodeOf([['g1', 'g1']]), ['g1', 'g2']).hit).toBe(0.1);
  });

  it('pays a hit in the round that found it, also where the pool’s limit cuts it', () => {
    expect(values(episodeOf([['x', 'g1']], 'planner', ['x']), ['g1'])).toMatchObject({ recall: 0, hit: 0.2 });
  });
});

describe('roundReturns', () => {
  it('gives each round what is earned from it on', () => {
    const episode = episodeOf([['g1'], ['x'], ['g2']]);
    const settings = weighted({ hit: 0.5 });
    const returns = returnsOf(episode, ['g1', 'g2'], settings);
    // recall 1 at the end; the rounds earn .2, −.05 and .2.
    expect(returns).toHaveLength(4);
    for (const [i, expected] of [1.35, 1.15, 1.2, 1].entries()) expect(returns[i]).toBeCloseTo(expected, 12);
    expect(returns[0]).toBe(scoreEpisode(episode, ['g1', 'g2'], settings).total);
  });

  it('charges an invalid end to every call before it', () => {
    expect(returnsOf(episodeOf([], 'invalid'), ['g1'], config)).toEqual([-5]);
    const [first, last] = returnsOf(episodeOf([['x']], 'invalid'), ['g1'], config);
    expect(first).toBeCloseTo(-5.05, 12);
    expect(last).toBeCloseTo(-5, 12);
  });
});

/** A random episode over ids a0 … a29, of which the first `gold.length` are gold. */
function randomCase(random: Random): { episode: Scored; gold: string[]; originalIds: string[] } {
  const ids = random.shuffle(Array.from({ length: 30 }, (_, i) => `a${i}`));
  const rounds = Array.from({ length: random.int(5) }, () => ids.splice(0, random.int(7)));
  const pool = random.shuffle(rounds.flat()).slice(0, 20);
  const kind = (['planner', 'cap', 'no-growth', 'invalid'] as const)[random.int(4)]!;
  const gold = Array.from({ length: 1 + random.int(7) }, (_, i) => `a${i}`);
  const originalIds = Array.from({ length: random.int(10) }, () => `a${random.int(30)}`);
  return { episode: episodeOf(rounds, kind, pool), gold, originalIds };
}

describe('1000 random episodes', () => {
  const settings = weighted({ recall: 0.7, hit: 0.3, rank: 0.5, marginal: 0.11 });

  it('total is the sum of the values, bit for bit, also after a round trip through JSON', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const { episode, gold, originalIds } = randomCase(stream(seed, 'reward'));
      const ledger = scoreEpisode(episode, gold, settings, factsOf(originalIds));
      let sum = 0;
      for (const { raw, weight, value } of ledger.terms) {
        expect(Object.is(value, raw * weight + 0)).toBe(true);
        sum += value;
      }
      expect(Object.is(ledger.total, sum)).toBe(true);
      expect(ledger.terms.map((term) => term.name)).toEqual(TERM_ORDER);
      const read = ledgerSchema.parse(JSON.parse(JSON.stringify(ledger)));
      expect(read).toStrictEqual(ledger);
    }
  });

  it('every raw value keeps its bounds', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const { episode, gold, originalIds } = randomCase(stream(seed, 'bounds'));
      for (const { name, raw } of scoreEpisode(episode, gold, settings, factsOf(originalIds)).terms) {
        expect(raw).toBeGreaterThanOrEqual(0);
        expect(raw).toBeLessThanOrEqual(name === 'step' ? 4 : 1);
      }
      const { recall, rank, marginal } = values(
        episode,
        gold,
        weighted({ rank: 1, marginal: 1 }),
        originalIds,
      );
      expect(rank!).toBeLessThanOrEqual(recall! + 1e-12);
      expect(marginal!).toBeLessThanOrEqual(recall!);
    }
  });

  it('without a pool limit the hits sum to the recall', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const { episode, gold } = randomCase(stream(seed, 'hits'));
      const whole = { ...episode, pool: episode.rounds.flatMap((round) => round.newIds) };
      const { recall, hit } = values(whole, gold, weighted({ hit: 1 }));
      expect(hit).toBe(recall);
    }
  });

  it('is monotone in recall: one more gold article is worth more, for every weight setting', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const random = stream(seed, 'monotone');
      const { episode, gold, originalIds } = randomCase(random);
      if (episode.rounds.length === 0) continue;
      const missing = gold.find((id) => !episode.rounds.some((round) => round.newIds.includes(id)));
      if (missing === undefined) continue;
      const target = random.int(episode.rounds.length);
      const better: Scored = {
        ...episode,
        rounds: episode.rounds.map((round, i) =>
          i === target ? { ...round, newIds: [...round.newIds, missing] } : round,
        ),
        pool: [...episode.pool, missing],
      };
      for (const each of [config, settings, weighted({ hit: 0 })])
        expect(scoreEpisode(better, gold, each, factsOf(originalIds)).total).toBeGreaterThan(
          scoreEpisode(episode, gold, each, factsOf(originalIds)).total,
        );
    }
  });

  it('return-to-go starts at the total and its differences are the rounds’ own rewards', () => {
    for (let seed = 0; seed < 1000; seed++) {
      const { episode, gold, originalIds } = randomCase(stream(seed, 'returns'));
      const returns = returnsOf(episode, gold, settings, originalIds);
      expect(returns).toHaveLength(episode.rounds.length + 1);
      expect(returns[0]).toBe(scoreEpisode(episode, gold, settings, factsOf(originalIds)).total);
      for (const [i, round] of episode.rounds.entries()) {
        const gained = round.newIds.filter((id) => gold.includes(id)).length / gold.length;
        expect(returns[i]! - returns[i + 1]!).toBeCloseTo(-0.05 + 0.3 * gained, 12);
      }
    }
  });
});
