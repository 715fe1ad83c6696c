/**
 * The trajectory: one episode of one query by one policy version. One JSON line on disk, these names.
 * Together with the adapters and `config.json` of a run it is enough to recompute every log-probability,
 * reward and advantage in any language.
 */
import { z } from 'zod';
import { episodeSchema } from '../env/episode.ts';
import { ledgerSchema } from '../reward/ledger-schema.ts';

export const trajectorySchema = z.strictObject({
  runId: z.string(),
  step: z.number().int(),
  queryId: z.string(),
  member: z.number().int(),
  policyVersion: z.number().int(),
  /** The name that answered, which is the one that was asked. */
  adapter: z.string(),
  ...episodeSchema.shape,
  ledger: ledgerSchema,
  /** Null when its group was dropped, for `dropReason`. */
  advantage: z.number().nullable(),
  dropReason: z.string().nullable(),
  timings: z.record(z.string(), z.number()),
});
export type Trajectory = z.infer<typeof trajectorySchema>;

/** The one result of a rollout: a trajectory, or a failure with its reason; never a fake row. */
export type RolloutResult =
  | { kind: 'ok'; trajectory: Trajectory }
  | { kind: 'failed'; queryId: string; member: number; reason: string };
