/**
 * The one configuration of a run: strict at every level, defaults where a default is right for most.
 * Keys are read by the part of the program that the section is named after.
 *
 * Batch size is `rollout.queriesPerStep × rollout.groupSize`; nothing has to divide anything.
 */
import { z } from 'zod';
import { LORA_MODULES } from '../engine/peft.ts';
import { QUESTION_SHAPES } from '../env/import/import-questions.ts';
import { assistants, embeddings } from './assistants-schema.ts';
import { endpoint } from './endpoint-schema.ts';
import { env, reward } from './environment-schema.ts';
import { atLeastZero, beta, count, filled, heldOutMetric, positive, share } from './fields.ts';
import { learner } from './learner-schema.ts';
import { log, monitor } from './observe-schema.ts';
import { pool } from './pool-schema.ts';
import { retrain } from './retrain-schema.ts';
import { brokenRules } from './rules.ts';

const run = z.strictObject({
  /** Names the run folder and every adapter: `<name>-v<step>`. */
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'lower-case letters, digits and dashes, at most 64'),
  /** Parent of the run folder. */
  dir: filled.default('runs'),
  /** Sets every random stream. */
  seed: z
    .number()
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .default(1),
});

const model = z.strictObject({
  /** A folder in Hugging Face layout. */
  path: filled,
  /** Keyword arguments of the model's chat template, such as `enable_thinking: false`. */
  chatTemplate: z.record(z.string(), z.union([z.boolean(), z.number(), z.string()])).default({}),
  /**
   * How to make the folder when it is absent: a small base model trained from scratch on the corpus.
   * Its time is not part of the run's.
   */
  build: z
    .strictObject({
      size: z.enum(['tiny', 'small']),
      /** Tokens of pretraining. */
      tokens: count,
      learningRate: positive.optional(),
      seed: z.number().int().default(1),
    })
    .optional(),
});

const data = z.strictObject({
  corpus: filled,
  /** Judgments, for the Lawyer's searches of precedents. */
  precedents: filled.optional(),
  train: filled,
  validation: filled,
  /** How to make these two files when they are absent: a question set of another shape, split by a seed. */
  import: z
    .strictObject({
      shape: z.enum(QUESTION_SHAPES),
      from: filled,
      /** Share of the questions that are held out. */
      holdOut: share.default(0.3),
      /** For the Lawyer: keep training questions that cite no article but have an answer. */
      withoutGold: z.boolean().default(false),
      seed: z.number().int().min(0).default(1),
    })
    .optional(),
});

const retrieval = z.strictObject({
  kind: z.literal('bm25').default('bm25'),
  k1: positive.default(1.5),
  b: share.default(0.75),
  /** Weights of the original question's terms and of the rewrite's distinct terms in one search. */
  anchor: z
    .strictObject({ original: atLeastZero.default(1), rewrite: atLeastZero.default(0.5) })
    .prefault({}),
  /** What articles of the law that a rewrite names (`民法典：押金 返还`) gain, as a share of the best score. */
  lawBoost: atLeastZero.default(0),
  /** Absent: BM25 alone. */
  embeddings: embeddings.optional(),
  rerank: z
    .strictObject({ kind: z.literal('lexical').default('lexical'), alpha: share.default(0.9) })
    .prefault({}),
  /** First stage per reformulation, and what the second stage keeps (LegalMALR: 30 and 10). */
  topK: count.default(30),
  keep: count.default(10),
});

const rollout = z.strictObject({
  queriesPerStep: count.max(100_000).default(16),
  groupSize: z
    .number()
    .int()
    .min(2, 'a group needs at least 2 members to have an advantage')
    .max(1024)
    .default(8),
  /** A group with fewer good members is dropped and counted. */
  minGroup: z.number().int().min(2).default(4),
  temperature: positive.default(1),
  /** Samples come from the likeliest tokens that hold this share; 1: from all. See the rules for what it costs. */
  topP: positive.max(1).default(1),
  /** Samples come from so many of the likeliest tokens; 0: from all. */
  topK: z.number().int().min(0).max(1_000_000).default(0),
  /** Of one call, by what makes it: LegalMALR's planner and rewriters, Legal-R1's Lawyer. */
  maxTokens: z
    .strictObject({ planner: count.default(16), rewriter: count.default(64), lawyer: count.default(512) })
    .prefault({}),
  /** Agent calls under way at once. */
  concurrency: count.max(65_536).default(256),
  deadlineMs: count.max(86_400_000).default(60_000),
  /** Attempts a member, the first included: a failed one is sampled anew. */
  maxAttempts: count.default(2),
});

const advantage = z.strictObject({
  scale: z.enum(['group', 'batch', 'none']).default('group'),
  leaveOneOut: z.boolean().default(false),
  /** `separate`: the ranking of valid members is kept when one of them is invalid. */
  validity: z.enum(['joint', 'separate']).default('separate'),
  /** max − min of a group's rewards at or below this is no variance: the group is dropped whole. */
  tolerance: z.number().min(0).default(1e-6),
  /** Added to the standard deviation. */
  stdFloor: z.number().min(0).default(0.05),
  /** Extra groups sampled in a step in place of those without variance, at most. */
  refill: z.number().int().min(0).default(0),
});

const loss = z.strictObject({
  /**
   * DAPO is `grpo` with clipHigh above clipLow and token aggregation; Dr. GRPO is `grpo` with constant
   * aggregation and advantage.scale none; RLOO is `reinforce` with advantage.leaveOneOut and scale none.
   */
  kind: z.enum(['grpo', 'gspo', 'cispo', 'reinforce']).default('grpo'),
  clipLow: positive.max(1).default(0.2),
  clipHigh: positive.default(0.2),
  /** `token`: mean over all tokens of the step; `sequence`: mean over samples of their token means. */
  aggregation: z.enum(['token', 'sequence', 'constant']).default('token'),
  /** Denominator of a sample under `constant` (Dr. GRPO), in tokens. */
  constantLength: count.default(64),
  kl: z
    .strictObject({
      coef: z.number().min(0).default(0),
      estimator: z.enum(['k1', 'k2', 'k3']).default('k3'),
    })
    .prefault({}),
  entropy: z.number().min(0).default(0),
  importance: z
    .strictObject({
      level: z.enum(['token', 'sequence']).default('sequence'),
      mode: z.enum(['none', 'truncate', 'mask']).default('mask'),
      cap: z.number().min(1).default(3),
      /** How far sampler and learner may be apart in a step before it is told (`trainer/mismatch.ts`). */
      alarm: z
        .strictObject({
          /** Mean and largest |Δ log-probability| of the sampled tokens, nats. */
          meanAbs: positive.default(0.05),
          maxAbs: positive.default(3),
          /** KL(sampler‖learner) by its k3 estimate, nats a token. */
          kl: positive.default(0.02),
          /** Share of the tokens that the correction leaves out. */
          maskedFraction: share.default(0.5),
          /** So many such steps in a row end the run; null: never. */
          stopAfter: count.nullable().default(10),
        })
        .prefault({}),
    })
    .prefault({}),
  /** Passes over one step's rows; more than 1 makes the clip act. */
  epochs: count.max(1000).default(1),
});

const optimizer = z.strictObject({
  learningRate: positive.default(3e-4),
  warmupSteps: z.number().int().min(0).default(8),
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  betas: z.tuple([beta, beta]).default([0.9, 0.99]),
  eps: positive.default(1e-8),
  weightDecay: z.number().min(0).default(0),
  clipNorm: positive.default(1),
  /** Stop after this many steps in a row whose gradient is not finite. */
  maxSkipped: count.default(3),
});

const lora = z.strictObject({
  r: count.max(512).default(16),
  alpha: positive.default(32),
  rslora: z.boolean().default(false),
  /** A trained adapter's folder to start from, of the same shape; a frozen copy of it is the KL reference. */
  start: z.string().min(1).optional(),
  targets: z
    .array(z.enum(LORA_MODULES))
    .min(1)
    .default([...LORA_MODULES]),
});

const sft = z.strictObject({
  /** A file of `lexpo synthesize`; left out: the environment's own teacher plays, which knows the gold. */
  demonstrations: filled.optional(),
  /** Share of the training questions that the warm start sees. */
  share: share.default(0.3),
  /** Demonstrated episodes per question, at most. */
  rolloutsPerQuery: count.max(1000).default(4),
  epochs: positive.max(1000).default(2),
  tokensPerStep: count.default(4096),
  learningRate: positive.default(1e-3),
});

const train = z.strictObject({
  steps: z.number().int().min(0),
  /** Evaluate every so many steps; step 0 and the last are always evaluated. */
  evalEvery: count.default(10),
  checkpointEvery: count.default(10),
  /** Checkpoints kept beside the best one. */
  keep: count.default(2),
  /** Steps that are sampled while an earlier one is learnt (`trainer/ahead.ts`); 0: on-policy. */
  maxStaleness: z.number().int().min(0).max(8).default(0),
});

const evaluation = z.strictObject({
  k: count.default(10),
  /** The best checkpoint is the one with the highest held-out value of this; the two of answers are the Lawyer's. */
  metric: heldOutMetric,
  /** The adapter that the run leaves as its result, and that `after` describes. */
  choose: z.enum(['best', 'last']).default('best'),
  /** Held-out questions used for the evaluations within a run; the first and last use all. */
  queries: count.nullable().default(null),
  bootstrap: count.max(1_000_000).default(2000),
  /** Sampled episodes per question beside the greedy one at the final evaluation; 0: greedy only. */
  samples: z.number().int().min(0).max(1000).default(0),
  /** Also report the baselines that need no language model. */
  baselines: z.boolean().default(false),
  /** Rewrite weights at which the SFT start is also read, so that it is compared at its best. */
  anchorSweep: z.array(atLeastZero).default([]),
});

const shape = z.strictObject({
  run,
  model,
  data,
  retrieval: retrieval.prefault({}),
  env: env.prefault({}),
  assistants: assistants.prefault({}),
  endpoint: endpoint.prefault({}),
  rollout: rollout.prefault({}),
  /** Absent: rollouts run within the trainer. */
  pool: pool.optional(),
  reward: reward.prefault({}),
  advantage: advantage.prefault({}),
  loss: loss.prefault({}),
  optimizer: optimizer.prefault({}),
  lora: lora.prefault({}),
  learner: learner.prefault({}),
  /** The supervised warm start; absent: GRPO starts from a fresh adapter. */
  sft: sft.optional(),
  train,
  eval: evaluation.prefault({}),
  /** Absent: `lexpo retrain` and `lexpo schedule` have nothing to go by. */
  retrain: retrain.optional(),
  /** Absent: text on the screen. */
  log: log.optional(),
  /** Absent: no metrics and no health are served. */
  monitor: monitor.optional(),
});

/** The whole schema: the fields, then the rules across them. */
export const configSchema = shape.superRefine((config, context) => {
  for (const { path, message } of brokenRules(config)) context.addIssue({ code: 'custom', path, message });
});

/** A resolved configuration: every default filled in. */
export type Config = z.output<typeof configSchema>;
