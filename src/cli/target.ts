/** What `eval` and `rollout` are pointed at: the folder of a run, or a configuration. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../base/errors.ts';
import { loadConfig, type Overrides, parseConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { newestAdapter } from '../trainer/adapter-name.ts';
import { chosenAdapter } from '../trainer/chosen-adapter.ts';

export interface Target {
  config: Config;
  /** Adapter folder; null: the base model. */
  adapter: string | null;
}

/**
 * Reads the target. Without `adapter` a run means the adapter in its summary, or, while it is not
 * finished, its newest one; a configuration means the base model.
 */
export async function readTarget(
  target: string,
  options: Overrides & { adapter?: string | undefined },
): Promise<Target> {
  const isFolder = statSync(target, { throwIfNoEntry: false })?.isDirectory() ?? false;
  const path = join(target, 'config.json');
  if (!isFolder || !existsSync(path))
    return { config: loadConfig(target, options), adapter: options.adapter ?? null };
  const config = parseConfig(readFileSync(path, 'utf8'), path, options);
  return { config, adapter: options.adapter ?? (await adapterOfRun(target, config.train.steps)) };
}

async function adapterOfRun(root: string, steps: number): Promise<string> {
  const adapters = join(root, 'adapters');
  const chosen = chosenAdapter(root, steps);
  if (chosen !== null) return join(adapters, chosen);
  const names = existsSync(adapters) ? await readdir(adapters) : [];
  const newest = newestAdapter(names);
  if (newest) return join(adapters, newest);
  throw new UserError(
    'has no adapter yet',
    root,
    'let the run get that far, or give --adapter, or the configuration file for the base model alone',
  );
}
