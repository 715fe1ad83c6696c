/** The sections `env` and `reward`: what the policy acts in, and what it is paid for. Their `kind` decides their keys. */
import { z } from 'zod';
import { LAWYER_PACKS } from '../env/lawyer/config.ts';
import { PACK_NAMES } from '../env/malr/config.ts';
import { LAWYER_REWARD } from '../reward/lawyer/config.ts';
import { count, share, weight } from './fields.ts';

const malr = z.strictObject({
  kind: z.literal('malr').default('malr'),
  prompts: z.enum(PACK_NAMES).default('zh'),
  maxRounds: count.max(16).default(4),
  diminishing: z.enum(['report', 'stop']).default('report'),
  noGrowthRounds: count.default(2),
  allowOriginal: z.boolean().default(true),
  allowEarlyTerminate: z.boolean().default(false),
  /** A reformulation with a larger share of terms unknown to the corpus is dropped. */
  unknownTermLimit: share.default(0.5),
  maxDecomposed: count.default(4),
  maxQueryChars: count.default(200),
  /** Unusable rewriter outputs that an episode survives; the next one is an invalid termination. */
  toleratedBadRewrites: z.number().int().min(0).default(0),
  /** Articles kept in the reported pool. */
  poolLimit: count.default(20),
});

const lawyer = z.strictObject({
  kind: z.literal('lawyer'),
  prompts: z.enum(LAWYER_PACKS).default('zh'),
  maxTurns: count.max(64).default(9),
  /** Tokens of the policy in an episode after which no further turn is taken. */
  maxPolicyTokens: count.default(4096),
  maxQueryChars: count.default(200),
  /** Of one piece of evidence, characters shown; and pieces of one turn. */
  evidenceChars: count.default(400),
  evidenceItems: count.max(100).default(8),
  /** A turn that cannot be read: one corrective message an episode, or its end. */
  malformed: z.enum(['correct', 'end']).default('correct'),
  allowEarlyStop: z.boolean().default(true),
  unknownTermLimit: share.default(0.5),
  /** Articles kept in the pool that the episode leaves. */
  poolLimit: count.default(20),
  /** Searches of precedents (data.precedents): α·Rel + (1−α)·Auth, less β × the likest sentence among those chosen. */
  precedents: z
    .strictObject({
      alpha: share.default(0.8),
      beta: share.default(0.3),
      /** Cases of the first stage, and those shown. */
      candidates: count.default(30),
      k: count.max(100).default(3),
      /** Characters of a condensed case. */
      chars: count.default(400),
    })
    .prefault({}),
});

export const env = z.discriminatedUnion('kind', [malr, lawyer]);

/** A cost: added as often as what it is for occurs. */
const cost = z.number().min(-1e6).max(0);

const malrReward = z.strictObject({
  kind: z.literal('malr').default('malr'),
  recall: weight.default(1),
  /** Recall over the first k of the ranked pool; null: over the whole pool, as in the paper. */
  recallAt: count.nullable().default(null),
  /** A cost: added once a round. */
  step: z.number().min(-1e6).max(0).default(-0.05),
  hit: weight.default(0.2),
  /** A penalty: added once to an invalid termination. */
  invalid: z.number().min(-1e6).max(0).default(-5),
  rank: weight.default(0),
  marginal: weight.default(0),
  searchRank: weight.default(0),
  credit: z.enum(['trajectory', 'return-to-go']).default('trajectory'),
});

const { weights, articles, tokenAllowance, queryAllowance } = LAWYER_REWARD;
/** Terms and their bounds: docs/legal-r1-reward.md. */
const lawyerReward = z.strictObject({
  kind: z.literal('lawyer'),
  articles: z.enum(['f1', 'exact']).default(articles),
  tokenAllowance: count.default(tokenAllowance),
  queryAllowance: count.default(queryAllowance),
  answerAccuracy: weight.default(weights.answerAccuracy),
  evidenceGain: weight.default(weights.evidenceGain),
  queryQuality: weight.default(weights.queryQuality),
  alignment: weight.default(weights.alignment),
  format: weight.default(weights.format),
  verbosity: cost.default(weights.verbosity),
  repetition: cost.default(weights.repetition),
  invalid: cost.default(weights.invalid),
});

export const reward = z.discriminatedUnion('kind', [malrReward, lawyerReward]);
