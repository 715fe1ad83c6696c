import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type LockOptions, lastFence, lockRegistry, type RegistryLock } from './registry-lock.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-lock-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const take = (options: LockOptions = {}) => lockRegistry(root, new Date(0), options);
async function hold(options: LockOptions = {}): Promise<RegistryLock> {
  const lock = await take(options);
  if ('heldBy' in lock) throw new Error(lock.heldBy);
  return lock;
}
const path = () => join(root, '.lock');
const holder = () => JSON.parse(readFileSync(path(), 'utf8')) as Record<string, unknown>;
/** Rewrites who holds the lock, its heartbeat `ago` milliseconds old. */
function pretend(change: object, ago: number): void {
  writeFileSync(path(), JSON.stringify({ ...holder(), ...change }));
  const at = new Date(Date.now() - ago);
  utimesSync(path(), at, at);
}

describe('the lock of a registry', () => {
  test('has one holder, is free again afterwards, and its fence rises', async () => {
    const first = await hold();
    expect(first.fence).toBe(1);
    expect(await take()).toEqual({ heldBy: expect.stringContaining(`process ${process.pid}`) });
    first.check();
    first.release();
    expect(readdirSync(root)).toEqual(['fence']);
    const second = await hold();
    expect(second.fence).toBe(2);
    second.release();
  });

  test('of many that come at once exactly one gets it', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => take()));
    const held = all.filter((lock): lock is RegistryLock => !('heldBy' in lock));
    expect(held).toHaveLength(1);
    held[0]!.release();
    expect(readdirSync(root)).toEqual(['fence']);
  });

  test('of many that find an abandoned one exactly one gets it', async () => {
    await hold();
    pretend({ place: 'another machine' }, 120_000);
    const all = await Promise.all(Array.from({ length: 20 }, () => take()));
    expect(all.filter((lock) => !('heldBy' in lock))).toHaveLength(1);
  });

  test('a holder that lives keeps it, however wrong its clock is', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
    const first = await hold({ heartbeatMs: 20 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    vi.useRealTimers();
    expect(await take({ staleMs: 30_000 })).toHaveProperty('heldBy');
    first.check();
    first.release();
  });

  test('a process of this machine that is gone is followed at once', async () => {
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    await hold();
    pretend({ token: 'gone', pid: gone }, 0);
    expect((await hold()).fence).toBe(2);
  });

  test('the same number on another machine says nothing: only its silence does', async () => {
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    await hold();
    pretend({ token: 'far', pid: gone, place: 'another machine' }, 30_000);
    expect(await take()).toHaveProperty('heldBy');
    pretend({}, 61_000);
    expect((await hold()).fence).toBe(2);
  });

  test('a living process of this machine that is silent, such as a stopped one, is followed and finds out', async () => {
    const sleeper = await hold();
    pretend({}, 61_000);
    const next = await hold();
    expect(() => sleeper.check()).toThrow(/another process took the registry/);
    next.check();
    sleeper.release();
    next.check();
    next.release();
  });

  test('the heartbeat goes on, and a lost lock is told by the signal', async () => {
    const lock = await hold({ heartbeatMs: 10 });
    pretend({}, 61_000);
    await expect.poll(() => Date.now() - statSync(path()).mtimeMs).toBeLessThan(60_000);
    expect(await take()).toHaveProperty('heldBy');
    rmSync(path());
    await once(lock.lost, 'abort');
    expect(() => lock.check()).toThrow();
    lock.release();
  });

  test('a fence from outside is kept to, and one that the registry is past is refused', async () => {
    const seven = await hold({ fence: 7 });
    expect(lastFence(root)).toBe(7);
    seven.release();
    expect(await take({ fence: 7 })).toEqual({ heldBy: expect.stringContaining('fence 7') });
    expect((await hold()).fence).toBe(8);
  });

  test('a lock file that is none is told, not taken', async () => {
    writeFileSync(path(), 'mine');
    await expect(take()).rejects.toThrow(/\.lock: is no lock file/);
  });

  test('a killed holder leaves nothing that the next one stumbles over', async () => {
    const file = new URL('./registry-lock.ts', import.meta.url).href;
    const program = `const { lockRegistry } = await import(${JSON.stringify(file)});
      await lockRegistry(${JSON.stringify(root)}, new Date(0));
      console.log('held'); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program]);
    await once(child.stdout, 'data');
    expect(await take()).toEqual({ heldBy: expect.stringContaining(`process ${child.pid}`) });
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect((await hold()).fence).toBe(2);
  });
});
