/**
 * The reward ledger: the value of every term of an episode, and their sum, which is the reward. Pure: no
 * search, no clock. The entropy bonus is no reward; it lives in the loss.
 */
import type { Episode } from '../env/episode.ts';
import type { RewardConfig, RewardWeights } from './config.ts';
import { hit, hitsByRound } from './hit.ts';
import { invalid } from './invalid.ts';
import type { Ledger } from './ledger-schema.ts';
import { marginal } from './marginal.ts';
import { rank } from './rank.ts';
import { recall } from './recall.ts';
import { searchRank } from './search-rank.ts';
import { step } from './step.ts';

/** What some terms need of the retrieval besides the episode. */
export interface RetrievalFacts {
  /** What the original question alone finds: for `marginal`. */
  originalIds?: readonly string[];
  /** By gold article its best first-stage rank over the episode's searches, from 0; null: for `searchRank`. */
  goldRanks?: readonly (number | null)[];
}

/** What the terms read of an episode. */
export type Scored = Pick<Episode, 'rounds' | 'pool' | 'termination'>;

/** The order of the terms in a ledger, and of their addition. */
export const TERM_ORDER = [
  'recall',
  'step',
  'hit',
  'invalid',
  'rank',
  'marginal',
  'searchRank',
] as const satisfies (keyof RewardWeights)[];

/**
 * Scores an episode against its gold ids. Terms of weight 0 stand in the ledger too, with their raw value.
 * `total` is the sum of the values from left to right, starting at 0, in double precision, so that anyone
 * gets the same bits from the stored ledger.
 *
 * Without what `facts` gives, the term that needs it is not in the ledger, and a weight for it is an error
 * of the caller. Throws on empty gold and on a reward that is not finite.
 */
export function scoreEpisode(
  episode: Scored,
  gold: readonly string[],
  config: RewardConfig,
  facts: RetrievalFacts = {},
): Ledger {
  const goldSet = checkedGold(gold);
  const raws: Record<keyof RewardWeights, number | null> = {
    recall: recall(episode, goldSet, config.recallAt),
    step: step(episode),
    hit: hit(episode, goldSet),
    invalid: invalid(episode),
    rank: rank(episode, goldSet),
    marginal: facts.originalIds ? marginal(episode, goldSet, facts.originalIds) : null,
    searchRank: facts.goldRanks ? searchRank(facts.goldRanks) : null,
  };
  for (const name of ['marginal', 'searchRank'] as const)
    if (raws[name] === null && config.weights[name] !== 0)
      throw new Error(`the term ${name} has a weight, but what it needs of the retrieval was not given`);
  const terms: Ledger['terms'] = [];
  for (const name of TERM_ORDER) {
    const raw = raws[name];
    if (raw !== null)
      terms.push({ name, raw, weight: config.weights[name], value: weigh(raw, config.weights[name]) });
  }
  const total = terms.reduce((sum, { value }) => sum + value, 0);
  if (!Number.isFinite(total)) throw new Error(`the reward is ${total}: a weight is not finite`);
  return { terms, total };
}

/**
 * The return from each round on, for `credit: return-to-go`. Length `rounds.length + 1`: a call's credit is
 * `returns[call.round]`; the last entry belongs to a planner call that ended the episode without a round.
 * Step and hit are earned in their round, everything else at the end. The first entry is the ledger's total.
 */
export function roundReturns(
  episode: Scored & { ledger: Pick<Ledger, 'total'> },
  gold: readonly string[],
  config: RewardConfig,
): number[] {
  const { total } = episode.ledger;
  const returns = [total];
  const goldSet = checkedGold(gold);
  let earned = 0;
  for (const hits of hitsByRound(episode, goldSet)) {
    earned += config.weights.step + (config.weights.hit * hits) / goldSet.size;
    returns.push(total - earned);
  }
  return returns;
}

/** Never −0: it would come back from JSON as another number. */
function weigh(raw: number, weight: number): number {
  return raw * weight + 0;
}

function checkedGold(gold: readonly string[]): Set<string> {
  if (gold.length === 0) throw new Error('a question without gold articles cannot be scored');
  return new Set(gold);
}
