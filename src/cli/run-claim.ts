/** Who may write into a run folder: one process at a time, and never over an earlier run unasked. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeError } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';

export interface ClaimOptions {
  resume: boolean;
  fresh: boolean;
}

const LOCK = '.lock';

/**
 * Takes the run folder `root`, making it where it is absent; gives the function that frees it.
 *
 * A folder that already holds something needs `resume`, or `fresh`, which removes the content, and does so
 * only where `config.json` shows that it is a run of ours. A folder in use by a living process is refused.
 */
export function claimRun(root: string, { resume, fresh }: ClaimOptions): () => void {
  if (resume && fresh)
    throw new UserError('--resume and --fresh exclude each other', root, 'give one of them');
  const content = contentOf(root);
  if (content.length > 0 && !resume && !fresh)
    throw new UserError(
      'holds an earlier run',
      root,
      'go on with it by --resume, start anew by --fresh (removes it), or choose another run.name',
    );
  if (content.length > 0 && fresh && !isRun(root))
    throw new UserError(
      'is not empty and holds no run of lexpo (no config.json of one): --fresh removes nothing there',
      root,
      'choose another run.name or run.dir, or remove the folder yourself',
    );
  const release = lock(root);
  if (fresh) for (const name of content) rmSync(join(root, name), { recursive: true, force: true });
  return release;
}

function contentOf(root: string): string[] {
  try {
    return readdirSync(root).filter((name) => name !== LOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    if (code === 'ENOTDIR') throw new UserError('is a file, not a folder', root, 'choose another run.name');
    throw error;
  }
}

/** Its config.json is one that a run wrote. */
function isRun(root: string): boolean {
  try {
    const config = JSON.parse(readFileSync(join(root, 'config.json'), 'utf8')) as Record<string, unknown>;
    return ['run', 'model', 'data', 'rollout', 'train'].every((key) => typeof config[key] === 'object');
  } catch {
    return false;
  }
}

function lock(root: string): () => void {
  const path = join(root, LOCK);
  try {
    mkdirSync(root, { recursive: true });
    const holder = holderOf(path);
    if (holder !== null)
      throw new UserError(
        `is in use by process ${holder}`,
        root,
        `wait for it, or choose another run.name; if no such run is alive, remove ${path}`,
      );
    rmSync(path, { force: true });
    writeFileSync(path, String(process.pid), { flag: 'wx' });
  } catch (error) {
    throw writeError(error, root);
  }
  return () => rmSync(path, { force: true });
}

/** The living process that holds the lock; null for none, or one that ended without freeing it. */
function holderOf(path: string): number | null {
  if (!existsSync(path)) return null;
  const pid = Number(readFileSync(path, 'utf8'));
  if (!Number.isInteger(pid) || pid < 1 || pid === process.pid) return null;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    // Alive, but not ours to signal.
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? pid : null;
  }
}
