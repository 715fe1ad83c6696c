/** Whether a configuration is the one that a run folder was started with: what a resumed run must share. */
import { readFile } from 'node:fs/promises';
import { messageOf, UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import type { RunFolder } from './run-folder.ts';

/** What a resumed run may change: more steps, other checkpoints kept, the run folder moved. */
const FREE = new Set(['train.steps', 'train.keep', 'run.dir']);

/** The settings of a configuration by dotted path, as JSON; without those that a resumed run may change. */
export function sharedSettings(config: unknown, path = ''): Map<string, string> {
  const out = new Map<string, string>();
  if (typeof config !== 'object' || config === null || Array.isArray(config)) {
    if (!FREE.has(path)) out.set(path, JSON.stringify(config));
    return out;
  }
  for (const [key, value] of Object.entries(config))
    for (const entry of sharedSettings(value, path ? `${path}.${key}` : key)) out.set(...entry);
  return out;
}

/** One line for every setting that differs: `rollout.groupSize: 8, now 4`. */
export function changedSettings(before: unknown, now: unknown): string[] {
  const [a, b] = [sharedSettings(before), sharedSettings(now)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((path) => a.get(path) !== b.get(path))
    .map((path) => `${path}: ${a.get(path) ?? 'not set'}, now ${b.get(path) ?? 'not set'}`);
}

/** UserError unless the folder was started with this configuration; it names every setting that differs. */
export async function checkSameRun(folder: RunFolder, config: Config): Promise<void> {
  const started = await readStarted(folder);
  const changed = changedSettings(started, config);
  if (changed.length > 0)
    throw new UserError(
      `was started with another configuration\n  ${changed.join('\n  ')}`,
      folder.root,
      'give these settings as they were, or start anew with --fresh',
    );
}

async function readStarted(folder: RunFolder): Promise<unknown> {
  try {
    return JSON.parse(await readFile(folder.config, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new UserError('holds no run to go on with', folder.root, 'start it without --resume');
    throw new UserError(
      `is not the configuration of a run (${messageOf(error)})`,
      folder.config,
      "put the run's own configuration back there, or choose another run.name",
    );
  }
}
