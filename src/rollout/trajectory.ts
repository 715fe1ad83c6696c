/**
 * The trajectory: one episode of one query by one policy version. One JSON line on disk, these names.
 * Together with the adapters and `config.json` of a run it is enough to recompute every log-probability,
 * reward and advantage in any language.
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
export const callSchema = z.strictObject({
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

/** One round: the agent that ran, what it searched, what was dropped, the articles new to the pool. */
export const roundSchema = z.strictObject({
  agent: z.string(),
  queries: z.array(z.string()),
  dropped: z.array(z.strictObject({ query: z.string(), reason: z.string() })),
  newIds: z.array(z.string()),
  poolSize: z.number().int(),
});
export type Round = z.infer<typeof roundSchema>;

export const terminationSchema = z.strictObject({
  kind: z.enum(['planner', 'cap', 'no-growth', 'invalid']),
  reason: z.string(),
});
export type Termination = z.infer<typeof terminationSchema>;

/** One reward term: `value = raw × weight`. */
export const ledgerTermSchema = z.strictObject({
  name: z.string(),
  raw: z.number(),
  weight: z.number(),
  value: z.number(),
});
export const ledgerSchema = z.strictObject({ terms: z.array(ledgerTermSchema), total: z.number() });
export type Ledger = z.infer<typeof ledgerSchema>;

export const trajectorySchema = z.strictObject({
  runId: z.string(),
  step: z.number().int(),
  queryId: z.string(),
  member: z.number().int(),
  policyVersion: z.number().int(),
  adapter: z.string(),
  calls: z.array(callSchema),
  rounds: z.array(roundSchema),
  pool: z.array(z.string()),
  termination: terminationSchema,
  ledger: ledgerSchema,
  advantage: z.number().nullable(),
  dropReason: z.string().nullable(),
  timings: z.record(z.string(), z.number()),
});
export type Trajectory = z.infer<typeof trajectorySchema>;

/** What an environment leaves behind when an episode ends, before it is scored. */
export type Episode = Pick<Trajectory, 'calls' | 'rounds' | 'pool' | 'termination'>;

/** The one result of a rollout: a trajectory, or a failure with its reason; never a fake row. */
export type RolloutResult =
  | { kind: 'ok'; trajectory: Trajectory }
  | { kind: 'failed'; queryId: string; member: number; reason: string };
