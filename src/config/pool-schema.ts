/** The section `pool`: rollouts by worker processes over Redis. Left out: they run within the trainer. */
import { z } from 'zod';
import { count, filled } from './fields.ts';

/** Milliseconds; a timer holds no more than 2³¹. */
const deadline = count.max(86_400_000);

const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable, not the value itself');

export const redis = z.strictObject({
  /** `rediss://` for TLS, with the number of the database as its path. Left out: 127.0.0.1:6379. */
  url: z
    .string()
    .regex(
      /^rediss?:\/\/[^@?#/]+(\/\d{1,4})?$/,
      'an address alone, such as redis://10.0.0.1:6379: user and password go into the environment variables that usernameEnv and passwordEnv name',
    )
    .optional(),
  /** The NAMES of environment variables: of the whole address (it may hold user and password), or of its parts. */
  urlEnv: variable.optional(),
  usernameEnv: variable.optional(),
  passwordEnv: variable.optional(),
  /** PEM file of the authority that signed the server's certificate; left out: those that the system trusts. */
  caFile: filled.optional(),
  /** Starts every key: what else lives in the same Redis keeps apart. */
  prefix: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/, 'letters, digits, dots, dashes and underscores, at most 64')
    .default('lexpo'),
});

export const pool = z.strictObject({
  redis: redis.prefault({}),
  /** Where rollouts are written, which trainer and workers all see; left out: `results/` of the run folder. */
  resultsDir: filled.optional(),
  /** Groups that wait or are under way at once. */
  groupsAhead: count.max(65_536).default(64),
  /** Of one rollout on a worker. */
  jobDeadlineMs: deadline.default(300_000),
  /** Of a group from its dispatch: it closes with what is there. */
  groupDeadlineMs: deadline.default(1_800_000),
  /** Of one rollout with the same seeds, the first included: what may heal is tried again, on any worker. */
  attempts: count.max(1000).default(5),
  /** Before the second attempt; doubled for each further one. */
  backoffMs: deadline.default(1_000),
  /** After so long without a sign of life a worker's jobs go to others. */
  lockMs: z.number().int().min(500).max(86_400_000).default(30_000),
  /** What a worker that is told to end gives the rollouts under way. */
  drainMs: deadline.default(60_000),
});
export type PoolConfig = z.output<typeof pool>;
