/** What a run recorded about one of its adapters: what a model card may say, and nothing else. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../base/read-json.ts';
import type { Config } from '../../config/schema.ts';
import type { Interval } from '../../eval/bootstrap.ts';
import type { EvalFigures } from '../../report/tables.ts';
import { parseAdapterName } from '../adapter-name.ts';
import { stepName } from '../run-folder.ts';
import { type RunInputs, readRunInputs } from '../run-inputs.ts';

/** Figures on the held-out questions; of policies greedy. */
export interface HeldOut {
  /** Null where it was not recorded. */
  questions: number | null;
  rows: { name: string; figures: EvalFigures }[];
  /** `gain`: difference of recall (0 to 1) with its 95 % interval. */
  comparisons: { what: string; over: string; questions: number; gain: Interval }[];
}

export interface RunFacts {
  config: Config;
  /** GRPO steps done when the adapter was published; null for a name that does not say it. */
  step: number | null;
  /** Null for a run that did not record them. */
  inputs: RunInputs | null;
  /** Null where nothing was measured for this adapter. */
  heldOut: HeldOut | null;
}

const share = z.number().min(0).max(1);
const interval = z.looseObject({ mean: z.number(), low: z.number(), high: z.number() });
const evaluationSchema = z.looseObject({
  recall: share,
  mrr: share,
  ndcg: share,
  invalidRate: share.optional(),
  meanRounds: z.number().optional(),
  meanPool: z.number().optional(),
  perQuestion: z.array(z.unknown()),
});
type Evaluation = z.infer<typeof evaluationSchema>;
const reportSchema = z.looseObject({
  adapter: z.string(),
  singlePass: evaluationSchema,
  before: evaluationSchema,
  after: evaluationSchema,
  comparisons: z.array(
    z.looseObject({ what: z.string(), over: z.string(), questions: z.number(), gain: interval }),
  ),
});
const DAMAGED = 'Remove the file to leave these figures out of the card, or put it back.';

const figuresOf = ({ recall, mrr, ndcg, invalidRate, meanRounds, meanPool }: Evaluation): EvalFigures => ({
  recall,
  mrr,
  ndcg,
  invalidRate,
  meanRounds,
  meanPool,
});

/** Names of the rows; the policy that GRPO started from is described by the configuration. */
const SINGLE_PASS = 'single-pass (the question searched as it is)';
const THIS = 'this adapter';
function beforeName({ sft, lora }: Config): string {
  if (sft) return 'before GRPO (after the warm start)';
  return lora.start === undefined ? 'before GRPO (base model)' : 'before GRPO (the adapter it started from)';
}

/** Reads the run's records. UserError for a damaged one. */
export function readRunFacts(root: string, config: Config, name: string): RunFacts {
  const about = parseAdapterName(name);
  return {
    config,
    step: about?.version ?? null,
    inputs: readRunInputs(root),
    heldOut: fromReport(root, config, name) ?? fromEvaluations(root, config, name),
  };
}

/** The final report, when it is about this adapter. */
function fromReport(root: string, config: Config, name: string): HeldOut | null {
  const file = join(root, 'report.json');
  if (!existsSync(file)) return null;
  const { adapter, singlePass, before, after, comparisons } = readJsonFile(file, reportSchema, DAMAGED);
  if (basename(adapter) !== name) return null;
  const { recall, mrr, ndcg } = singlePass;
  return {
    questions: after.perQuestion.length,
    rows: [
      { name: SINGLE_PASS, figures: { recall, mrr, ndcg } },
      { name: beforeName(config), figures: figuresOf(before) },
      { name: THIS, figures: figuresOf(after) },
    ],
    comparisons,
  };
}

/**
 * The evaluation of the adapter's own step. `before` stands beside it only when both were measured on equally
 * many questions. None when the version was written twice: the record may be the other one's.
 */
function fromEvaluations(root: string, config: Config, name: string): HeldOut | null {
  const version = parseAdapterName(name)?.version;
  if (version === undefined) return null;
  const twins = readdirSync(join(root, 'adapters')).filter((n) => parseAdapterName(n)?.version === version);
  if (twins.length > 1) return null;
  const read = (step: number): Evaluation | null => {
    const file = join(root, 'evaluations', `${stepName(step)}.json`);
    return existsSync(file) ? readJsonFile(file, evaluationSchema, DAMAGED) : null;
  };
  const own = read(version);
  if (!own) return null;
  const before = version === 0 ? null : read(0);
  const comparable = before && before.perQuestion.length === own.perQuestion.length ? before : null;
  return {
    questions: own.perQuestion.length,
    rows: [
      ...(comparable ? [{ name: beforeName(config), figures: figuresOf(comparable) }] : []),
      { name: THIS, figures: figuresOf(own) },
    ],
    comparisons: [],
  };
}
