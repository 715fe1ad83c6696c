/**
 * What a lock file needs when its holder may be a process of another machine: where process ids mean the same,
 * and signs of life that do not depend on anybody's clock.
 */
import {
  closeSync,
  fdatasync,
  openSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  write,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

/** Signs of life come so often, milliseconds. */
export const HEARTBEAT_MS = 5_000;
/** Silence after which a holder counts as dead, milliseconds. */
export const STALE_MS = 60_000;

/** Where process ids mean the same: machine, boot and, on Linux, process space (containers have their own). */
export function placeOf(): string {
  const parts = [hostname()];
  try {
    parts.push(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
    parts.push(readlinkSync('/proc/self/ns/pid'));
  } catch {
    // Not Linux: the heartbeat has to do for what the process id cannot tell.
  }
  return parts.join(' ');
}

/** Whether the process of that number, of this place, is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !hasEnded(pid);
  } catch (error) {
    // EPERM: alive, but not ours to signal.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** It was killed, and its parent has not asked for its exit code yet: in a container without init, never. */
function hasEnded(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    // No such thing on this system, or it is gone this moment: the next look tells.
    return false;
  }
}

/**
 * Signs of life in the lock file `path`, which holds `content`: the same bytes are written again, so that the
 * file system, and not this machine's clock, says when. It is this very file that is written, wherever it was
 * moved to, and never one that somebody else has put in its place.
 */
export function openHeartbeat(path: string, content: string): { beat(): Promise<void>; close(): void } {
  const file = openSync(path, 'r+');
  let closed = false;
  let beating: Promise<void> = Promise.resolve();
  return {
    beat() {
      beating = beating.then(async () => {
        if (closed) return;
        await promisify(write)(file, Buffer.from(content), 0, undefined, 0);
        await promisify(fdatasync)(file);
      });
      return beating;
    },
    close() {
      closed = true;
      const end = (): void => closeSync(file);
      beating.then(end, end);
    },
  };
}

/**
 * Milliseconds since the last sign of life in `path`, against a file made now on the same file system, called
 * `<path>.<token>`; null when there is no such file any more.
 */
export function silenceOf(path: string, token: string): number | null {
  const probe = `${path}.${token}`;
  try {
    writeFileSync(probe, '');
    return statSync(probe).mtimeMs - statSync(path).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  } finally {
    rmSync(probe, { force: true });
  }
}
