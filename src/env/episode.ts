/**
 * What an environment leaves behind: the calls of the policy, the rounds, the pool, and how it ended. A
 * trajectory (`rollout/trajectory.ts`) is an episode with its origin and its reward.
 */
import { z } from 'zod';

/** The six agents of LegalMALR: one model, six prompts. */
export const ROLES = [
  'planner',
  'rewrite_single',
  'rewrite_supplement',
  'decompose',
  'supportive_law',
  'repair',
] as const;
export type Role = (typeof ROLES)[number];

/**
 * One agent call: one training sample. `promptIds` as sent; `outputIds` as sampled, the end token
 * included when it was sampled; `logprobs` natural logarithms of the sampling distribution, one for each
 * of `outputIds`. `action`: the parsed action of a planner call, null elsewhere or when it did not parse.
 */
const callSchema = z.strictObject({
  role: z.string(),
  round: z.number().int(),
  promptIds: z.array(z.number().int()),
  outputIds: z.array(z.number().int()),
  logprobs: z.array(z.number()),
  temperature: z.number(),
  finishReason: z.string(),
  text: z.string(),
  action: z.string().nullable(),
});
export type AgentCall = z.infer<typeof callSchema>;

/** An article or a case as it was shown, with its place in its search; `articles`: the ids that it is or applies. */
const evidenceSchema = z.strictObject({
  source: z.enum(['statute', 'precedent']),
  id: z.string(),
  rank: z.number().int().min(0),
  title: z.string(),
  text: z.string(),
  articles: z.array(z.string()),
});

/** What the judge answered, by the name of who did. */
const answerSchema = z.strictObject({
  by: z.string(),
  text: z.string(),
  articles: z.array(z.string()),
  choices: z.array(z.string()),
  number: z.number().nullable(),
});

/** One round: the agent that ran, what it searched, what was dropped, the articles new to the pool. */
const roundSchema = z.strictObject({
  agent: z.string(),
  queries: z.array(z.string()),
  dropped: z.array(z.strictObject({ query: z.string(), reason: z.string() })),
  newIds: z.array(z.string()),
  poolSize: z.number().int(),
  /** The Lawyer's: what the search was for, and what was shown of what it found. */
  intent: z.string().optional(),
  evidence: z.array(evidenceSchema).optional(),
});
export type Round = z.infer<typeof roundSchema>;

const terminationSchema = z.strictObject({
  kind: z.enum(['planner', 'cap', 'no-growth', 'invalid']),
  reason: z.string(),
});
export type Termination = z.infer<typeof terminationSchema>;

/** `pool`: article ids in their final order. */
export const episodeSchema = z.strictObject({
  calls: z.array(callSchema),
  rounds: z.array(roundSchema),
  pool: z.array(z.string()),
  termination: terminationSchema,
  /** The Lawyer's: null where the episode ended without one. */
  answer: answerSchema.nullable().optional(),
  /** Malformed turns that a message corrected. */
  correctives: z.number().int().optional(),
});
export type Episode = z.infer<typeof episodeSchema>;
