import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { isAlive, openHeartbeat, silenceOf } from './lock-file.ts';
import { temporaryFolder } from './test-support.ts';

const folder = temporaryFolder();
const path = (): string => join(folder, 'lock');
afterEach(() => vi.useRealTimers());

test('a sign of life is dated by the file system, whatever the clock of the holder says', async () => {
  writeFileSync(path(), 'me');
  const old = new Date(Date.now() - 3_600_000);
  for (const shift of [-7_200_000, 7_200_000]) {
    utimesSync(path(), old, old);
    expect(silenceOf(path(), 'probe')).toBeGreaterThan(3_500_000);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + shift });
    const heart = openHeartbeat(path(), 'me');
    await heart.beat();
    heart.close();
    vi.useRealTimers();
    expect(Math.abs(silenceOf(path(), 'probe')!)).toBeLessThan(60_000);
  }
  expect(readFileSync(path(), 'utf8')).toBe('me');
  expect(readdirSync(folder)).toEqual(['lock']);
});

test('a sign of life stays with the file: what another process put in its place is not touched', async () => {
  writeFileSync(path(), 'me');
  const heart = openHeartbeat(path(), 'me');
  renameSync(path(), `${path()}.aside`);
  writeFileSync(path(), 'somebody else');
  await heart.beat();
  heart.close();
  await heart.beat();
  expect(readFileSync(path(), 'utf8')).toBe('somebody else');
});

test('of a file that is gone there is no silence', () => {
  expect(silenceOf(join(folder, 'none'), 'probe')).toBeNull();
  expect(existsSync(join(folder, 'none.probe'))).toBe(false);
});

test.skipIf(!existsSync('/proc/self/stat'))(
  'a process that was killed and not yet reaped is not alive',
  () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    expect(isAlive(child.pid!)).toBe(true);
    child.kill('SIGKILL');
    // Without a turn of the event loop nobody reaps it.
    const stat = () => readFileSync(`/proc/${child.pid}/stat`, 'utf8');
    while (!/\) Z /.test(stat())) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    expect(isAlive(child.pid!)).toBe(false);
  },
);
