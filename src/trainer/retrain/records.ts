/** What a retraining job leaves on disk about itself: its state while it goes on, and its line in the history. */
import { basename } from 'node:path';
import { z } from 'zod';
import { QUESTION_METRICS } from '../../eval/metrics.ts';

const whole = z.number().int().min(0);

/** What came of the inbox. */
const pairCounts = z.strictObject({
  /** New pairs that joined the training set, and the held-out questions. */
  train: whole,
  heldOut: whole,
  /** Pairs that were there already, word for word. */
  known: whole,
  refused: whole,
});

const inboxFile = z.strictObject({ file: z.string(), sha256: z.string() });
export type InboxFile = z.infer<typeof inboxFile>;

/** A set of questions: the hash that names it, and how many there are. */
const questionSet = z.strictObject({ hash: z.string(), questions: whole });

const interval = z.strictObject({ mean: z.number(), low: z.number(), high: z.number() });

/** Champion and challenger on the same held-out questions. */
const figures = z.strictObject({
  metric: z.enum(QUESTION_METRICS),
  k: whole,
  questions: whole,
  champion: z.number(),
  challenger: z.number(),
  /** Mean of challenger − champion over the questions, with its paired bootstrap interval. */
  gain: interval,
  confidence: z.number(),
});
export type Figures = z.infer<typeof figures>;

const trigger = z.enum(['hand', 'schedule']);

/** What a job fixes when it has collected its pairs; nothing of it changes until its end. */
const collected = {
  format: z.literal(1),
  run: z.string(),
  trigger,
  startedAt: z.string(),
  /** Of the settings that training depends on: with others the job cannot go on. */
  settingsHash: z.string(),
  /** The champion that it starts from and is measured against; null: the configuration's own start. */
  champion: z.string().nullable(),
  inbox: z.array(inboxFile),
  pairs: pairCounts,
  trainingSet: questionSet,
  heldOut: questionSet,
};

/** `job.json`: the phase says what is still to do. Each phase may be done again from its start. */
export const job = z.discriminatedUnion('phase', [
  z.strictObject({ phase: z.literal('train'), ...collected }),
  /** `challenger`: folder of the adapter that the training run chose. */
  z.strictObject({ phase: z.literal('evaluate'), ...collected, challenger: z.string() }),
  z.strictObject({
    phase: z.literal('end'),
    ...collected,
    challenger: z.string(),
    figures,
    promote: z.boolean(),
    why: z.string(),
  }),
]);
export type Job = z.infer<typeof job>;
export type JobAt<P extends Job['phase']> = Extract<Job, { phase: P }>;

/**
 * A line of `history.jsonl`. `promoted` and `refused` are jobs that came to their end; `nothing`: too few new
 * pairs; `skipped`: another job was at work; `failed`: it stopped, and the next one goes on with it; `abandoned`:
 * an unfinished job was given up.
 */
export const historyRecord = z.strictObject({
  at: z.string(),
  kind: z.enum(['promoted', 'refused', 'nothing', 'skipped', 'failed', 'abandoned', 'rolled-back']),
  why: z.string(),
  by: z.strictObject({ trigger, host: z.string() }),
  lexpo: z.string(),
  configHash: z.string().optional(),
  run: z.string().optional(),
  /** In use before, and after. */
  before: z.string().nullable().optional(),
  after: z.string().nullable().optional(),
  /** Name of the adapter. */
  challenger: z.string().optional(),
  figures: figures.optional(),
  trainingSet: questionSet.optional(),
  heldOut: questionSet.optional(),
  pairs: pairCounts.optional(),
  /** Files of the inbox that the job has used up. */
  inbox: z.array(inboxFile).optional(),
});
export type HistoryRecord = z.infer<typeof historyRecord>;

/** What the last line of a job says of it, whatever came of it. */
export function aboutJob({ run, champion, challenger, ...job }: JobAt<'end'>): Partial<HistoryRecord> {
  const { figures, trainingSet, heldOut, pairs, inbox } = job;
  return {
    run,
    before: champion,
    challenger: basename(challenger),
    figures,
    trainingSet,
    heldOut,
    pairs,
    inbox,
  };
}
export type Trigger = z.infer<typeof trigger>;
