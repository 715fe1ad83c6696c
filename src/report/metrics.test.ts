import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';

/** When set, an append writes only this many bytes of the text and then meets a full disk. */
const fault: { after: number | null } = { after: null };

vi.mock('node:fs/promises', async (importOriginal) => {
  const real = await importOriginal<typeof import('node:fs/promises')>();
  return {
    ...real,
    open: async (...args: Parameters<typeof real.open>): Promise<FileHandle> => {
      const handle = await real.open(...args);
      const append = handle.appendFile.bind(handle);
      handle.appendFile = async (data: string | Uint8Array) => {
        if (fault.after === null) return append(data);
        await append(data.slice(0, fault.after));
        throw Object.assign(new Error('injected'), { code: 'ENOSPC' });
      };
      return handle;
    },
  };
});

const { metricsRow, openMetrics, SERIES } = await import('./metrics.ts');
const { UserError } = await import('../base/errors.ts');

const folder = temporaryFolder();
let files = 0;
const rows = (path: string): Record<string, number>[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
const fresh = () => join(folder, `m${files++}`, 'metrics.jsonl');

test('a line holds the known series in their order and nothing that is not finite', async () => {
  const path = fresh();
  const log = await openMetrics(path);
  await log.append(1, {
    'learn/loss': 0.5,
    'reward/mean': -1.25,
    'policy/kl': Number.NaN,
    'learn/gradNorm': Number.POSITIVE_INFINITY,
    'policy/entropy': null,
    'reward/std': undefined,
    'groups/dropped': 0,
  });
  await log.close();
  expect(readFileSync(path, 'utf8')).toBe(
    '{"step":1,"reward/mean":-1.25,"groups/dropped":0,"learn/loss":0.5}\n',
  );
  expect(new Set(SERIES).size).toBe(SERIES.length);
});

test('a name that is not in the list is a fault', () => {
  expect(() => metricsRow(1, { 'reward/maen': 1 } as never)).toThrow(/unknown series reward\/maen/);
});

test('a new run starts empty; a resumed one keeps what the checkpoint knew', async () => {
  const path = fresh();
  const first = await openMetrics(path);
  for (const step of [0, 1, 2, 3, 4]) await first.append(step, { 'reward/mean': step });
  await first.append(2, { 'eval/recall': 0.5 });
  await first.close();

  const resumed = await openMetrics(path, 2);
  await resumed.append(3, { 'reward/mean': 30 });
  await resumed.close();
  expect(rows(path).map((row) => [row.step, row['reward/mean'] ?? row['eval/recall']])).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
    [2, 0.5],
    [3, 30],
  ]);
  expect(readdirSync(join(path, '..'))).toEqual(['metrics.jsonl']);

  await (await openMetrics(path)).close();
  expect(readFileSync(path, 'utf8')).toBe('');
});

test('a last line that was cut off is dropped, damage in the middle is named', async () => {
  const path = fresh();
  await (await openMetrics(path)).close();
  writeFileSync(path, '{"step":1,"reward/mean":1}\n{"step":2,"rewa');
  const log = await openMetrics(path, 5);
  await log.append(2, { 'reward/mean': 2 });
  await log.close();
  expect(rows(path)).toEqual([
    { step: 1, 'reward/mean': 1 },
    { step: 2, 'reward/mean': 2 },
  ]);
  writeFileSync(path, '{"step":1}\nrubbish\n{"step":3}\n');
  await expect(openMetrics(path, 5)).rejects.toThrow(/metrics\.jsonl:2: is not a line of metrics/);
});

test('resuming without a file starts one', async () => {
  const path = fresh();
  const log = await openMetrics(path, 3);
  await log.append(4, { 'reward/mean': 1 });
  await log.close();
  expect(rows(path)).toHaveLength(1);
});

test('a full disk leaves whole lines only, and the log goes on once there is room', async () => {
  const path = fresh();
  const log = await openMetrics(path);
  await log.append(1, { 'reward/mean': 1 });
  fault.after = 7;
  await expect(log.append(2, { 'reward/mean': 2 })).rejects.toThrow(UserError);
  fault.after = null;
  expect(readFileSync(path, 'utf8')).toBe('{"step":1,"reward/mean":1}\n');
  await log.append(2, { 'reward/mean': 2 });
  await log.close();
  expect(rows(path)).toHaveLength(2);
});
