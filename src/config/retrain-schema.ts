/** The section `retrain`: what a retraining job reads, what a challenger must show, and where champions live. */
import { z } from 'zod';
import { servers } from './endpoint-schema.ts';
import { atLeastZero, count, filled, heldOutMetric, share } from './fields.ts';
import { redis } from './pool-schema.ts';

const promote = z.strictObject({
  /** Held-out figure (a ranking's at `eval.k`) on which champion and challenger meet, question by question. */
  metric: heldOutMetric,
  /**
   * `interval-above`: the lower end of the paired interval of (challenger − champion) is above `minGain`;
   * `mean-above`: the mean is, which noise alone manages every other night.
   */
  rule: z.enum(['interval-above', 'mean-above']).default('interval-above'),
  /** In units of the metric, 0 to 1. */
  minGain: atLeastZero.max(1).default(0),
  /** Of the interval. */
  confidence: z.number().gt(0).lt(1).default(0.95),
  /** Resamples of the questions. */
  bootstrap: count.max(1_000_000).default(10_000),
});

/** Read by `lexpo retrain` and `lexpo schedule` alone. */
export const retrain = z.strictObject({
  /** Folder of new labelled pairs: every `*.jsonl` and `*.jsonl.gz` directly in it. Nothing is written there. */
  inbox: filled,
  /** Folder of the champions, their history, and the training sets that they come from. */
  registry: filled,
  /** With fewer accepted new pairs a job ends without training; they count again the next time. */
  minNewPairs: count.default(20),
  /** Share of the new pairs that joins the held-out questions; 0: they stay those of data.validation. */
  holdout: share.max(0.9).default(0),
  promote: promote.prefault({}),
  /**
   * The servers that answer users: a promotion and a rollback load the champion on every one of them and prove it
   * there before it is the one in use. Left out: servers are not told. `adapterRoot` is the registry's `champions`.
   */
  serve: z.strictObject(servers).optional(),
  /** Where `lexpo schedule` keeps its schedules; `lexpo retrain` needs none. */
  redis: redis.prefault({}),
});
