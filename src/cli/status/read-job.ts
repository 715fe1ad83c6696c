/** The retraining job under way, or left unfinished, for the status. */

import { readJob, registryAt } from '../../trainer/retrain/registry.ts';
import { registryHolder } from '../../trainer/retrain/registry-lock.ts';
import type { RetrainConfig } from '../../trainer/retrain/run-config.ts';
import { readRun } from './read-run.ts';

const DOING = { train: 'trains', evaluate: 'evaluates', end: 'ends' };

/** One line; null when there is no job. `now`: milliseconds since 1970. Writes nothing. */
export function readRetrainJob(config: RetrainConfig, now: number): string | null {
  const registry = registryAt(config.retrain.registry);
  const job = readJob(registry);
  const holder = registryHolder(registry.root);
  if (job === null) return holder && `collects pairs (${holder})`;
  const { step, steps } = readRun({ ...config, run: { ...config.run, name: job.run } }, now);
  const doing = `${job.run} ${DOING[job.phase]}${job.phase === 'train' ? `, step ${step} of ${steps}` : ''}`;
  return holder === null ? `${doing}: unfinished, the next job goes on with it` : `${doing} (${holder})`;
}
