/** What the run folder says of a run: the part of its status that needs no server. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import type { Config } from '../../config/schema.ts';
import { newestAdapter } from '../../trainer/adapter-name.ts';
import { runFolder } from '../../trainer/run-folder.ts';
import { runHolder } from '../run-claim.ts';

export interface RunStatus {
  folder: string;
  /** `stopped`: begun, not finished, and nobody works on it. */
  state: 'absent' | 'running' | 'stopped' | 'finished';
  /** Who works on it; null: nobody. */
  holder: string | null;
  step: number;
  steps: number;
  /** Newest adapter that was written. */
  adapter: string | null;
  /** Milliseconds since anything was last added to the metrics; null before the first. */
  quietMs: number | null;
  /** The newest value of every series. */
  metrics: Record<string, number>;
}

/** `now`: milliseconds since 1970. A last line of the metrics that is being written is left out. */
export function readRun(config: Config, now: number): RunStatus {
  const folder = runFolder(config);
  const holder = runHolder(folder.root);
  const { step = 0, ...metrics } = newestValues(folder.metrics);
  const begun = existsSync(folder.config);
  // A summary may be that of an end which `train.steps` has moved since.
  const finished = holder === null && existsSync(folder.summary) && step >= config.train.steps;
  const adapters = existsSync(folder.adapters) ? readdirSync(folder.adapters) : [];
  return {
    folder: folder.root,
    state: holder !== null ? 'running' : finished ? 'finished' : begun ? 'stopped' : 'absent',
    holder,
    step,
    steps: config.train.steps,
    adapter: newestAdapter(adapters) ?? null,
    quietMs: existsSync(folder.metrics)
      ? Math.max(0, Math.round(now - statSync(folder.metrics).mtimeMs))
      : null,
    metrics,
  };
}

function newestValues(path: string): Record<string, number> {
  if (!existsSync(path)) return {};
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return Object.assign({}, ...lines.map((line) => JSON.parse(line) as object));
}
