/** What the phases of a retraining job share: its tools, its options, and how it writes down where it is. */
import { version } from '../../base/version.ts';
import type { Config } from '../../config/schema.ts';
import type { PolicyEvaluation } from '../../eval/evaluate-policy.ts';
import type { HistoryRecord, Job, Trigger } from './records.ts';
import { appendHistory, type Registry, writeJob } from './registry.ts';
import type { RegistryLock } from './registry-lock.ts';
import { fullHash, type RetrainConfig } from './run-config.ts';
import type { Serving } from './serving.ts';

/** What a job has done by others: the trainer, the policy service, the clock. */
export interface RetrainTools {
  /** Trains, from where an earlier attempt stopped; the folder of the chosen adapter, or null when `signal` ended it. */
  train(config: Config, signal: AbortSignal): Promise<string | null>;
  /** Greedy episodes on the held-out questions of `config` with an adapter's folder; null: the base model. */
  evaluate(config: Config, adapter: string | null, signal: AbortSignal): Promise<PolicyEvaluation>;
  /** The servers of `retrain.serve`; null without that section. */
  serving(config: RetrainConfig): Serving | null;
  now(): Date;
  host: string;
  log(line: string): void;
}

export interface RetrainOptions {
  config: Config;
  trigger: Trigger;
  /** Give an unfinished job up instead of going on with it. */
  fresh: boolean;
  /** The fence that a lock outside of the registry gave. */
  fence?: number | undefined;
  /** How long to wait for a registry that is in use: of a holder that died elsewhere only its silence tells. */
  patienceMs?: number;
  signal: AbortSignal;
}

/** The job's last line in the history, or `interrupted`: the signal ended it, and the next job goes on. */
export type RetrainEnd = { kind: 'ended'; record: HistoryRecord } | { kind: 'interrupted' };

/** A job that holds its registry. */
export interface Work {
  config: RetrainConfig;
  options: RetrainOptions;
  tools: RetrainTools;
  registry: Registry;
  lock: RegistryLock;
  signal: AbortSignal;
}

/** Kinds that end a job, and use up its part of the inbox. */
export const isEnd = (kind: HistoryRecord['kind']): boolean => kind === 'promoted' || kind === 'refused';

/** Writes the job's state down, when the registry is still ours. */
export async function write({ registry, lock, tools }: Work, job: Job): Promise<void> {
  lock.check();
  await writeJob(registry, job);
  tools.log(`${job.run}: next is ${job.phase}`);
}

/** A line of the history, as far as it is the same for every kind. */
export function line(
  config: RetrainConfig,
  { trigger }: Pick<RetrainOptions, 'trigger'>,
  tools: RetrainTools,
  kind: HistoryRecord['kind'],
  why: string,
): HistoryRecord {
  return {
    at: tools.now().toISOString(),
    kind,
    why,
    by: { trigger, host: tools.host },
    lexpo: version(),
    configHash: fullHash(config),
  };
}

/** Appends a line to the history, when the registry is still ours. */
export async function append(
  { config, options, tools, registry, lock }: Work,
  kind: HistoryRecord['kind'],
  why: string,
  about: Partial<HistoryRecord>,
): Promise<HistoryRecord> {
  lock.check();
  const record = { ...line(config, options, tools, kind, why), ...about };
  await appendHistory(registry, record);
  return record;
}
