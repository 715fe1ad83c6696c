/** `summary.json`: the run in a few figures, for programs. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import type { EvalFigures } from './tables.ts';

const share = z.number().min(0).max(1);
const bytes = z.number().int().min(0);

/** The schema of a summary whose metrics were read at `k`: `recall@10`, `mrr@10`, `ndcg@10` for 10. */
export function summarySchema(k: number) {
  const metrics = { [`recall@${k}`]: share, [`mrr@${k}`]: share, [`ndcg@${k}`]: share };
  const policy = z.strictObject({
    ...metrics,
    invalidRate: share,
    meanRounds: z.number().min(0),
    meanPool: z.number().min(0),
    /** Of a policy whose episodes end with an answer: its accuracy, and the share of the gold that was found. */
    answerAccuracy: share.optional(),
    evidenceRecall: share.optional(),
  });
  return z.strictObject({
    /** GRPO steps done. */
    steps: z.number().int().min(0),
    /** Wall time of the run, all its sessions together; making the base model is not counted. */
    seconds: z.number().min(0),
    /** Held-out figures. `before` is the policy that GRPO started from, `after` the chosen adapter. */
    eval: z.strictObject({ singlePass: z.strictObject(metrics), before: policy, after: policy }),
    /** Folder of the adapter whose figures `after` are. */
    adapter: z.string().min(1),
    /** Bytes: what was expected before the run, and what its process held at most, torch's processes left out. */
    memory: z.strictObject({ planned: bytes, peak: bytes }),
    /** What stood in for a model that was not given, a sentence each; absent where nothing did. */
    standIns: z.array(z.string().min(1)).optional(),
  });
}

export interface Summary {
  steps: number;
  seconds: number;
  eval: { singlePass: EvalFigures; before: PolicyFigures; after: PolicyFigures };
  adapter: string;
  memory: { planned: number; peak: number };
  standIns: readonly string[];
}

/** Figures of a policy: all of them are there, but those of answers where there are none. */
export type PolicyFigures = { [K in Exclude<keyof EvalFigures, Answers>]-?: number } & Pick<
  EvalFigures,
  Answers
>;
type Answers = 'answerAccuracy' | 'evidenceRecall';

/** The JSON form of a summary with metrics at `k`. Throws if a figure is out of its range. */
function summaryJson(summary: Summary, k: number) {
  const metrics = ({ recall, mrr, ndcg }: EvalFigures) => ({
    [`recall@${k}`]: recall,
    [`mrr@${k}`]: mrr,
    [`ndcg@${k}`]: ndcg,
  });
  const policy = (figures: PolicyFigures) => ({
    ...metrics(figures),
    invalidRate: figures.invalidRate,
    meanRounds: figures.meanRounds,
    meanPool: figures.meanPool,
    ...(figures.answerAccuracy === undefined
      ? {}
      : { answerAccuracy: figures.answerAccuracy, evidenceRecall: figures.evidenceRecall }),
  });
  return summarySchema(k).parse({
    steps: summary.steps,
    seconds: summary.seconds,
    eval: {
      singlePass: metrics(summary.eval.singlePass),
      before: policy(summary.eval.before),
      after: policy(summary.eval.after),
    },
    adapter: summary.adapter,
    memory: summary.memory,
    ...(summary.standIns.length > 0 ? { standIns: summary.standIns } : {}),
  });
}

/** Writes `summary.json` atomically. */
export async function writeSummary(path: string, summary: Summary, k: number): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(summaryJson(summary, k), null, 2)}\n`);
}

const peakSchema = z.looseObject({ memory: z.looseObject({ peak: bytes }) });

/** `memory.peak` of the summary at `path`; 0 where there is none, or none that can be read. */
export function earlierPeak(path: string): number {
  try {
    return peakSchema.parse(JSON.parse(readFileSync(path, 'utf8'))).memory.peak;
  } catch {
    // It is written anew now: nothing depends on the old one.
    return 0;
  }
}
