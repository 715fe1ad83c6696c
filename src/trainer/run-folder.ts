/**
 * The run folder, `runs/<name>/`:
 *
 *   config.json  metrics.jsonl  summary.json  report.json
 *   adapters/<name>-v<version>/   trajectories/step-000001.jsonl.gz   checkpoints/step-000010/
 *   evaluations/step-000000.json
 */
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { writeJsonLines } from '../base/jsonl.ts';
import { readJsonFile } from '../base/read-json.ts';
import type { Config } from '../config/schema.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import type { Trajectory } from '../rollout/trajectory.ts';

export interface RunFolder {
  root: string;
  config: string;
  metrics: string;
  summary: string;
  report: string;
  adapters: string;
  checkpoints: string;
  trajectories(step: number): string;
  evaluation(step: number): string;
}

/** What belongs to a step is called by it, and sorts by it: `step-000010`. */
export const stepName = (step: number): string => `step-${String(step).padStart(6, '0')}`;

/** The paths of a run, absolute. */
export function runFolder({ run }: Pick<Config, 'run'>): RunFolder {
  const root = resolve(run.dir, run.name);
  return {
    root,
    config: join(root, 'config.json'),
    metrics: join(root, 'metrics.jsonl'),
    summary: join(root, 'summary.json'),
    report: join(root, 'report.json'),
    adapters: join(root, 'adapters'),
    checkpoints: join(root, 'checkpoints'),
    trajectories: (step) => join(root, 'trajectories', `${stepName(step)}.jsonl.gz`),
    evaluation: (step) => join(root, 'evaluations', `${stepName(step)}.json`),
  };
}

/** Writes the resolved configuration. */
export async function writeConfig(folder: RunFolder, config: Config): Promise<void> {
  await writeFileAtomic(folder.config, `${JSON.stringify(config, null, 2)}\n`);
}

/** Every trajectory of a step, dropped ones included, one JSON line each. */
export async function writeTrajectories(
  folder: RunFolder,
  step: number,
  groups: Trajectory[][],
): Promise<void> {
  await writeJsonLines(folder.trajectories(step), groups.flat());
}

/** Keeps an evaluation with its outcome for every question: what paired statistics need. */
export async function writeEvaluation(
  folder: RunFolder,
  step: number,
  evaluation: PolicyEvaluation,
): Promise<void> {
  await writeFileAtomic(folder.evaluation(step), `${JSON.stringify(evaluation)}\n`);
}

/** An evaluation of this run, as written by `writeEvaluation`; UserError when it is gone or damaged. */
export async function readEvaluation(folder: RunFolder, step: number): Promise<PolicyEvaluation> {
  const isOne = (value: unknown): boolean => Array.isArray((value as PolicyEvaluation | null)?.perQuestion);
  const schema = z.custom<PolicyEvaluation>(isOne, 'not an evaluation');
  return readJsonFile(
    folder.evaluation(step),
    schema,
    'put the file back, or start the run anew with --fresh',
  );
}
