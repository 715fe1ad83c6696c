/** What `lexpo export` is pointed at: a run and one of its adapters, or an adapter folder of any origin. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { UserError } from '../../base/errors.ts';
import { readJsonFile } from '../../base/read-json.ts';
import { parseConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { newestAdapter } from '../adapter-name.ts';
import { chosenAdapter } from '../chosen-adapter.ts';

export interface ExportSource {
  adapterFolder: string;
  /** Name of the adapter's folder. */
  name: string;
  /** The run that the adapter lies in; null for one that lies elsewhere. */
  run: { root: string; config: Config } | null;
}

const GIVE = 'give the folder of a run, such as runs/quickstart, or of an adapter in PEFT format';

/**
 * @param checkpoint of a run: `best` (highest held-out metric so far), `last`, or an adapter's name; default:
 *   the adapter that the run chose at its end.
 * @throws UserError for what is neither a run nor an adapter, a run without that adapter, or a run that is not
 *   finished when no `checkpoint` is given.
 */
export function findSource(target: string, checkpoint: string | undefined): ExportSource {
  const stat = statSync(target, { throwIfNoEntry: false });
  if (!stat) throw new UserError('no such folder', target, GIVE);
  if (!stat.isDirectory()) throw new UserError('is a file, not a folder', target, GIVE);
  const root = resolve(target);
  if (existsSync(join(root, 'adapter_config.json'))) return adapterSource(root, target, checkpoint);
  const config = readRun(root);
  if (config) return { ...adapterOfRun(root, target, checkpoint, config.train.steps), run: { root, config } };
  if (existsSync(join(root, 'adapter', 'adapter_config.json')))
    throw new UserError(
      'is a checkpoint of a run',
      target,
      `give ${join(target, 'adapter')} for its adapter`,
    );
  if (existsSync(join(root, 'config.json')))
    throw new UserError('holds a config.json, but not of a run (is it a model?)', target, GIVE);
  throw new UserError(
    'is neither a run nor an adapter: no config.json, no adapter_config.json',
    target,
    GIVE,
  );
}

function adapterSource(folder: string, target: string, checkpoint: string | undefined): ExportSource {
  if (checkpoint !== undefined)
    throw new UserError(
      'is one adapter: --checkpoint chooses among those of a run',
      target,
      'leave --checkpoint out, or give the folder of the run',
    );
  const [name, parent] = [basename(folder), dirname(folder)];
  const root = dirname(parent);
  const config = basename(parent) === 'adapters' ? readRun(root) : null;
  return { adapterFolder: folder, name, run: config && { root, config } };
}

/** The configuration of the run in `root`; null where its config.json is absent or not a run's. */
function readRun(root: string): Config | null {
  const file = join(root, 'config.json');
  if (!existsSync(file)) return null;
  const json = readJsonFile(
    file,
    z.looseObject({}),
    'Take the config.json that the run wrote; it is written whole.',
  );
  if (!('run' in json && 'train' in json)) return null;
  return parseConfig(readFileSync(file, 'utf8'), file);
}

function adapterOfRun(
  root: string,
  target: string,
  checkpoint: string | undefined,
  steps: number,
): Pick<ExportSource, 'adapterFolder' | 'name'> {
  const adapters = join(root, 'adapters');
  const names = existsSync(adapters) ? readdirSync(adapters).filter((name) => !name.startsWith('.')) : [];
  const last = newestAdapter(names);
  if (last === undefined)
    throw new UserError('has no adapter yet', target, 'let the run get that far: it goes on with --resume');
  const name = chosenName(root, target, checkpoint, { last, steps });
  if (!names.includes(name)) {
    const some = names.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
    const shown = some.length > 6 ? [...some.slice(0, 3), '…', ...some.slice(-2)] : some;
    throw new UserError(`has no adapter ${name}`, target, `there are ${shown.join(', ')}`);
  }
  return { adapterFolder: join(adapters, name), name };
}

const stateSchema = z.looseObject({
  progress: z.looseObject({ best: z.looseObject({ adapter: z.string() }).nullable() }),
});

function chosenName(
  root: string,
  target: string,
  checkpoint: string | undefined,
  { last, steps }: { last: string; steps: number },
): string {
  if (checkpoint === 'last') return last;
  if (checkpoint === 'best') return bestName(root, target);
  if (checkpoint !== undefined) return checkpoint;
  const chosen = chosenAdapter(root, steps);
  if (chosen !== null) return chosen;
  throw new UserError(
    `is not finished (no summary.json of ${steps} steps), so it has not chosen its adapter`,
    target,
    `say which: --checkpoint best, --checkpoint last, or a name such as --checkpoint ${last}`,
  );
}

/** The best adapter as the newest checkpoint knows it. */
function bestName(root: string, target: string): string {
  const checkpoints = join(root, 'checkpoints');
  const steps = existsSync(checkpoints) ? readdirSync(checkpoints).filter((n) => /^step-\d+$/.test(n)) : [];
  const newest = steps.sort((a, b) => Number(b.slice(5)) - Number(a.slice(5)))[0];
  const best =
    newest === undefined
      ? null
      : readJsonFile(join(checkpoints, newest, 'state.json'), stateSchema, 'Say which adapter by its name.')
          .progress.best;
  if (best) return best.adapter;
  throw new UserError(
    'has no checkpoint with an evaluation yet, so no best adapter is known',
    target,
    'let the run get that far, or give --checkpoint last',
  );
}

/** A name on the Hugging Face hub: `owner/name`. */
const HUB_ID = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;

export interface BaseName {
  /** What `base_model_name_or_path` says: never an absolute path of this machine. */
  name: string;
  /** Whether it is known to be a name on the hub. */
  hub: boolean;
}

/**
 * How others may call the base model that is `path` here. A folder of the hub's cache carries its hub name;
 * of other absolute paths, and of those that leave the current folder, the last part is taken.
 */
export function publicName(path: string): BaseName {
  const cached = /(?:^|[\\/])models--([^\\/]+?)--([^\\/]+)[\\/]snapshots(?:[\\/]|$)/.exec(path);
  if (cached) return { name: `${cached[1]}/${cached[2]}`, hub: true };
  if (isPrivatePath(path) || path.startsWith('.'))
    return { name: lastPart(path) ?? lastPart(resolve(path)) ?? 'unknown', hub: false };
  return { name: path, hub: HUB_ID.test(path) && !existsSync(path) };
}

const lastPart = (path: string): string | undefined =>
  path.split(/[\\/]/).findLast((part) => !['', '.', '..', '~'].includes(part));

/** An absolute path of a machine, POSIX or Windows, or one below a home folder. */
export const isPrivatePath = (text: string): boolean =>
  isAbsolute(text) || /^(?:~|[A-Za-z]:[\\/]|\\\\|file:)/.test(text);
