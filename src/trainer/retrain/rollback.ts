/** Going back to an earlier champion: the pointer moves, the history says so, nothing is removed. */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { UserError } from '../../base/errors.ts';
import { version } from '../../base/version.ts';
import { aboutJob, type HistoryRecord } from './records.ts';
import {
  appendHistory,
  currentChampion,
  pointAt,
  type Registry,
  readHistory,
  readJob,
  registryAt,
} from './registry.ts';
import { lockRegistry } from './registry-lock.ts';
import type { Serving } from './serving.ts';

/** The champions that lie below the one in use, oldest first, itself last: each went out of use by its successor. */
export function championStack(history: readonly HistoryRecord[]): string[] {
  let stack: string[] = [];
  for (const { kind, after } of history) {
    if (kind === 'promoted' && after) stack.push(after);
    if (kind !== 'rolled-back') continue;
    const at = after ? stack.lastIndexOf(after) : -1;
    // A champion that is not below was named by hand, after an earlier rollback: it comes on top.
    stack = after && at < 0 ? [...stack, after] : stack.slice(0, at + 1);
  }
  return stack;
}

/**
 * Moves the pointer to the champion before the one in use, so that twice goes further back; or to `to`, any
 * champion of the registry. Before the first there is none: the next job then starts as the first one did.
 * `serving`: the servers that have to serve it before the pointer moves; null: none are told.
 *
 * @throws UserError when there is nothing to go back to, no such champion, or a job at work; what `serving` throws,
 *   with the pointer where it was.
 */
export async function rollBack(
  folder: string,
  to: string | null,
  about: { at: Date; host: string; fullHash: string },
  serving: Serving | null,
): Promise<HistoryRecord> {
  const registry = registryAt(folder);
  if (!existsSync(registry.history))
    throw new UserError('holds no history', registry.root, 'nothing was ever promoted there');
  const lock = await lockRegistry(registry.root, about.at);
  if ('heldBy' in lock)
    throw new UserError(`is in use by ${lock.heldBy}`, registry.root, 'wait for that job, or end it');
  try {
    const settled = unsaid(registry, about);
    if (settled) await appendHistory(registry, settled);
    const current = currentChampion(registry);
    const target = to ?? before(registry, current);
    if (target !== null && !existsSync(join(registry.champions, target, 'adapter_config.json')))
      throw new UserError(
        'is no champion of this registry',
        target,
        `look into ${registry.champions}, or lexpo retrain --history`,
      );
    if (target === current) throw new UserError('is the champion already', target ?? 'none', 'nothing to do');
    if (target !== null) await serving?.serve(registry, target, current);
    lock.check();
    await pointAt(registry, target);
    await serving?.retire(registry, [target, current]);
    const record: HistoryRecord = {
      ...signed(about),
      kind: 'rolled-back',
      why: to === null ? 'back to the one before' : 'to the one that was named',
      before: current,
      after: target,
    };
    await appendHistory(registry, record);
    return record;
  } finally {
    lock.release();
  }
}

const signed = ({ at, host, fullHash }: { at: Date; host: string; fullHash: string }) => ({
  at: at.toISOString(),
  by: { trigger: 'hand' as const, host },
  lexpo: version(),
  configHash: fullHash,
});

function before(registry: Registry, current: string | null): string | null {
  if (current === null)
    throw new UserError('has no champion to go back from', registry.root, 'see lexpo retrain --history');
  const stack = championStack(readHistory(registry));
  return stack[stack.lastIndexOf(current) - 1] ?? null;
}

/** The line that a job owes which was killed after it had moved the pointer: it ends here, as what it was. */
function unsaid(registry: Registry, about: Parameters<typeof signed>[0]): HistoryRecord | null {
  const job = readJob(registry);
  if (job?.phase !== 'end' || !job.promote) return null;
  const name = basename(job.challenger);
  if (currentChampion(registry) !== name) return null;
  if (readHistory(registry).some(({ kind, run }) => kind === 'promoted' && run === job.run)) return null;
  return { ...signed(about), kind: 'promoted', why: job.why, ...aboutJob(job), after: name };
}
