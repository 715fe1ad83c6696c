/** The configuration of a job's training run, and what names it. Pure. */
import { join } from 'node:path';
import { UserError } from '../../base/errors.ts';
import { shortHash } from '../../base/hash.ts';
import type { Config } from '../../config/schema.ts';
import { sharedSettings } from '../same-run.ts';
import type { Job } from './records.ts';
import { type Registry, setFile } from './registry.ts';

export type RetrainConfig = Config & { retrain: NonNullable<Config['retrain']> };

/** UserError for a configuration that says nothing of retraining, or whose name leaves no room for a date. */
export function withRetrain(config: Config): RetrainConfig {
  const { retrain } = config;
  if (retrain === undefined)
    throw new UserError(
      'the section is missing',
      'retrain',
      'give it an inbox and a registry, as configs/nightly.yaml does',
    );
  if (config.run.name.length > LONGEST_NAME)
    throw new UserError(
      `is longer than ${LONGEST_NAME} characters`,
      'run.name',
      'shorten it: every job adds its date and a number',
    );
  const { endpoint } = config;
  const mapped =
    endpoint.kind === 'vllm' ? endpoint.replicas.findIndex((one) => one.adapterRoot !== undefined) : -1;
  if (mapped >= 0)
    throw new UserError(
      'stands for the adapters of one run, and every job is a run of its own',
      `endpoint.replicas.${mapped}.adapterRoot`,
      'mount run.dir and retrain.registry on the server under the paths that they have here, and leave it out',
    );
  return { ...config, retrain };
}

/** A run's name has at most 64 characters; `-20261201-99` is added. */
const LONGEST_NAME = 64 - 12;

/** `<name>-<yyyymmdd>-<n>` by UTC, with the first n that is not taken. */
export function jobName(name: string, at: Date, isTaken: (name: string) => boolean): string {
  const day = at.toISOString().slice(0, 10).replaceAll('-', '');
  for (let n = 1; ; n++) {
    const candidate = `${name}-${day}-${n}`;
    if (!isTaken(candidate)) return candidate;
  }
}

/** Names the whole configuration in the history. */
export const fullHash = (config: Config): string => shortHash(config);

/** Of what an unfinished job must share with the configuration that goes on with it: all but the rules around it. */
export function settingsHash({ retrain: _, pool: __, ...rest }: Config): string {
  return shortHash([...sharedSettings(rest)]);
}

/**
 * What the job trains: its own run on its own sets, from the champion. The warm start teaches what a champion
 * knows already, and would take it back to its beginnings: only a job without a champion has one. Rollouts run in
 * the job's own process: workers of a pool wait for a run that they are told by name.
 */
export function runConfigOf(config: RetrainConfig, registry: Registry, job: Job): Config {
  const { retrain: _, pool: __, sft, ...rest } = config;
  const own = {
    ...rest,
    run: { ...config.run, name: job.run },
    data: {
      ...config.data,
      train: setFile(registry, job.trainingSet.hash),
      validation: setFile(registry, job.heldOut.hash),
    },
  };
  if (job.champion === null) return sft ? { ...own, sft } : own;
  return { ...own, lora: { ...config.lora, start: join(registry.champions, job.champion) } };
}
