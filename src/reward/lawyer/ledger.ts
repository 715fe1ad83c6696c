/** The Lawyer's ledger: every term of an episode, and their sum, which is the reward. Pure: judgments come as facts. */
import type { Episode } from '../../env/episode.ts';
import type { Query } from '../../env/types.ts';
import { invalid } from '../invalid.ts';
import type { Ledger } from '../ledger-schema.ts';
import { alignment, type Reference } from './alignment.ts';
import { answerAccuracy } from './answer-accuracy.ts';
import type { LawyerRewardConfig, LawyerRewardWeights } from './config.ts';
import { evidenceGain } from './evidence-gain.ts';
import { format } from './format.ts';
import type { Judgment } from './judgment.ts';
import { queryQuality } from './query-quality.ts';
import { repetition } from './repetition.ts';
import { verbosity } from './verbosity.ts';

/** What some terms need besides episode and question. */
export interface LawyerFacts {
  /** By gold article the best rank, from 0, that a statute query of the episode gives it; null: none does. */
  goldRanks: readonly (number | null)[];
  /** The teacher's searches; null where there are none. */
  reference: Reference | null;
  /** Of a question that labels do not suffice for (`needsJudgment`); null else. */
  judgment: Judgment | null;
}

/** The order of the terms in a ledger, and of their addition. */
export const LAWYER_TERMS = [
  'answerAccuracy',
  'evidenceGain',
  'queryQuality',
  'alignment',
  'format',
  'verbosity',
  'repetition',
  'invalid',
] as const satisfies (keyof LawyerRewardWeights)[];

/**
 * Scores an episode. Terms of weight 0 stand in the ledger too. `total` is the sum of the values from left to right,
 * starting at 0, in double precision. An invalid episode earns nothing but its costs: what it found brought no
 * answer. Without gold the evidence is worth what the judgment says of it. Throws without a judgment where one is needed, and on a reward that is not finite.
 */
export function scoreLawyerEpisode(
  episode: Episode,
  query: Pick<Query, 'gold' | 'answer'>,
  config: LawyerRewardConfig,
  { goldRanks, reference, judgment }: LawyerFacts,
): Ledger {
  const gold = new Set(query.gold);
  const ended = episode.termination.kind !== 'invalid';
  const raws: Record<keyof LawyerRewardWeights, number> = {
    answerAccuracy: ended ? answerAccuracy(episode.answer, gold, query.answer, config.articles, judgment) : 0,
    evidenceGain: ended ? evidenceGain(episode, gold, judgment) : 0,
    queryQuality: ended ? queryQuality(episode, goldRanks, config.queryAllowance) : 0,
    alignment: ended ? alignment(episode, reference) : 0,
    format: format(episode),
    verbosity: verbosity(episode, config.tokenAllowance),
    repetition: repetition(episode),
    invalid: invalid(episode),
  };
  const terms = LAWYER_TERMS.map((name) => {
    const [raw, weight] = [raws[name], config.weights[name]];
    // Never −0: it would come back from JSON as another number.
    return { name, raw, weight, value: raw * weight + 0 };
  });
  const total = terms.reduce((sum, { value }) => sum + value, 0);
  if (!Number.isFinite(total)) throw new Error(`the reward is ${total}: a weight is not finite`);
  return { terms, total };
}
