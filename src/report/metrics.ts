/**
 * The series of a run: one list, the same names everywhere, one JSON line a step in `metrics.jsonl`.
 * A value that is not a finite number is left out: absent, never NaN.
 */
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { writeError, writeFileAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { jsonLine } from '../base/jsonl.ts';

/** A term of the reward: its mean raw value over the step's trajectories. The first is LegalMALR's, the others Legal-R1's. */
export const TERM_SERIES = [
  'reward/recall',
  'reward/answerAccuracy',
  'reward/alignment',
  'reward/evidenceGain',
  'reward/queryQuality',
  'reward/format',
  'reward/verbosity',
  'reward/repetition',
] as const;

/** The key series, in the order of a line. Times are milliseconds and differ from run to run. */
export const SERIES = [
  'reward/mean',
  ...TERM_SERIES,
  'reward/std',
  'rollout/invalidRate',
  'rollout/meanRounds',
  'rollout/meanPool',
  'rollout/failed',
  'groups/dropped',
  'groups/zeroVariance',
  'rollout/stale',
  'policy/staleness',
  'policy/stalenessMax',
  'policy/entropy',
  'policy/kl',
  'policy/clipFraction',
  'policy/mismatch',
  'policy/mismatchMax',
  'policy/mismatchK1',
  'policy/mismatchK3',
  'policy/mismatchChi2',
  'policy/masked',
  'learn/gradNorm',
  'learn/loss',
  'learn/rate',
  'learn/skipped',
  'tokens/sampled',
  'tokens/trained',
  'eval/recall',
  'eval/mrr',
  'eval/ndcg',
  'eval/invalidRate',
  'eval/meanRounds',
  'eval/meanPool',
  'eval/answerAccuracy',
  'eval/evidenceRecall',
  'time/rollout',
  'time/learn',
  'time/publish',
] as const;
type Series = (typeof SERIES)[number];

/** What a step measured; absent, undefined, null and non-finite values are not written. */
export type MetricValues = Partial<Record<Series, number | null | undefined>>;
type MetricsRow = { step: number } & Partial<Record<Series, number>>;

export interface MetricsLog {
  /** Adds one line for `step`. A full disk is a `UserError` and leaves no part of the line. */
  append(step: number, values: MetricValues): Promise<void>;
  close(): Promise<void>;
}

/** The line of a step: known series only, in their order, finite values only. An unknown name throws. */
export function metricsRow(step: number, values: MetricValues): MetricsRow {
  const known: readonly string[] = SERIES;
  const unknown = Object.keys(values).find((name) => !known.includes(name));
  if (unknown) throw new Error(`unknown series ${unknown}: name it in report/metrics.ts`);
  const row: MetricsRow = { step };
  for (const name of SERIES) {
    const value = values[name];
    if (typeof value === 'number' && Number.isFinite(value)) row[name] = value;
  }
  return row;
}

/**
 * Opens `path` for appending. `resumeAt`: the step of the checkpoint that the run goes on from; lines of
 * later steps, and a last line that was cut off, are taken out first (atomically). Without it the file
 * starts empty.
 */
export async function openMetrics(path: string, resumeAt?: number): Promise<MetricsLog> {
  const kept = resumeAt === undefined ? '' : await linesUpTo(path, resumeAt);
  await writeFileAtomic(path, kept);
  const file = await open(path, 'a');
  let size = Buffer.byteLength(kept);
  return {
    append: async (step, values) => {
      size = await appendWhole(file, path, size, jsonLine(metricsRow(step, values)));
    },
    close: () => file.close(),
  };
}

/** Appends `text` at `size`, the file's length, and gives the new length; on an error cuts back to `size`. */
async function appendWhole(file: FileHandle, path: string, size: number, text: string): Promise<number> {
  try {
    await file.appendFile(text);
  } catch (error) {
    await file.truncate(size);
    throw writeError(error, path);
  }
  return size + Buffer.byteLength(text);
}

/** The lines up to `step`; a last line without its line feed was cut off and is left out. */
async function linesUpTo(path: string, step: number): Promise<string> {
  const content = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  return content
    .split('\n')
    .slice(0, -1)
    .filter((text, index) => stepOf(text, `${path}:${index + 1}`) <= step)
    .map((text) => `${text}\n`)
    .join('');
}

function stepOf(text: string, where: string): number {
  try {
    const { step } = JSON.parse(text) as { step?: unknown };
    if (typeof step === 'number') return step;
  } catch {
    // Falls through to the one error for every kind of damage.
  }
  throw new UserError(
    'is not a line of metrics',
    where,
    'remove the line, or start the run anew with --fresh',
  );
}
