/** Whether a configuration is the one that a run folder was started with: what a resumed run must share. */
import { readFile } from 'node:fs/promises';
import { messageOf, UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import type { RunFolder } from './run-folder.ts';

/**
 * Keys and whole sections that a resumed run may change: other checkpoints kept, the run folder moved, another
 * Python and its deadlines, who rolls out, when a run is retrained, what operators see, from where on sampler
 * and learner are too far apart, and how a step is cut into passes and dealt out to processes, which changes
 * gradients by rounding alone: a run that memory, or the loss of a machine, ended can go on with less.
 */
const FREE = [
  'train.keep',
  'run.dir',
  'learner.python',
  'learner.startDeadlineMs',
  'learner.callDeadlineMs',
  'learner.tokensPerPass',
  'learner.memory.recompute',
  'learner.memory.rowChunks',
  'learner.gradientCheckpointing',
  'learner.processes',
  'learner.nodes',
  'loss.importance.alarm',
  'pool',
  'retrain',
  'log',
  'monitor',
];

/**
 * The settings of a configuration by dotted path, as JSON; without those that a resumed run may change. More
 * steps are such a change while the learning rate is constant; a schedule that ends at the last step would
 * have been another from its first step on.
 */
export function sharedSettings(config: unknown): Map<string, string> {
  const out = new Map(leavesOf(config, ''));
  const isFree = (path: string): boolean => FREE.some((free) => path === free || path.startsWith(`${free}.`));
  for (const path of out.keys()) if (isFree(path)) out.delete(path);
  if (out.get('optimizer.schedule') === '"constant"') out.delete('train.steps');
  return out;
}

function leavesOf(value: unknown, path: string): [string, string][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, path ? `${path}.${key}` : key));
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
