import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import type { Checkpoint, Progress } from './checkpoint.ts';
import { tableAdapter, tableModel } from './test-support.ts';

/** What the full disk meets: `state.json`, or the tensors, which are written by another way. */
const full: { at: 'state' | 'tensors' | null } = { at: null };
const noSpace = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
vi.mock('node:fs/promises', async (importOriginal) => {
  const real = await importOriginal<typeof import('node:fs/promises')>();
  return {
    ...real,
    writeFile: async (...args: Parameters<typeof real.writeFile>): Promise<void> => {
      if (full.at !== 'state') return real.writeFile(...args);
      await real.writeFile(args[0], String(args[1]).slice(0, 9));
      throw noSpace();
    },
  };
});
vi.mock('node:fs', async (importOriginal) => {
  const real = await importOriginal<typeof import('node:fs')>();
  return {
    ...real,
    writeSync: (fd: number, data: Uint8Array, offset: number, length: number): number => {
      if (full.at === 'tensors' && length > 90) throw noSpace();
      return real.writeSync(fd, data, offset, length);
    },
  };
});
const { latestCheckpoint, pruneCheckpoints, readCheckpoint, writeCheckpoint } = await import(
  './checkpoint.ts'
);

const model = tableModel(5);
const about = { configHash: 'abc', baseModel: 'base' };
let root = '';
beforeEach(() => {
  root = join(mkdtempSync(join(tmpdir(), 'lexpo-checkpoint-')), 'checkpoints');
  full.at = null;
});
afterEach(() => rmSync(join(root, '..'), { recursive: true }));

/** Values of every kind that f32 has, so that a detour over text or f16 would show. */
function awkward(length: number, seed: number): Float32Array {
  const random = stream(seed, 'awkward');
  const special = [0, -0, 1e-45, -1.1754942e-38, 3.4028235e38, 1 / 3, Math.PI];
  return Float32Array.from({ length }, (_, i) => special[i] ?? random.normal() * 10 ** (random.int(40) - 20));
}

function checkpoint(step: number, about: Partial<Progress> = {}, reference = true): Checkpoint {
  const adapter = tableAdapter(model, 1, step);
  for (const [i, tensor] of [...adapter.tensors.values()].entries())
    tensor.data = awkward(tensor.data.length, 10 * step + i);
  const moments = (kind: number): Map<string, Float32Array> =>
    new Map(
      [...adapter.tensors].map(([name, { data }], i) => [
        name,
        awkward(data.length, 100 * step + 10 * i + kind),
      ]),
    );
  return {
    learner: {
      adapter,
      reference: reference ? tableAdapter(model, 1, 99) : null,
      optimizer: { step: 3 * step, first: moments(1), second: moments(2) },
    },
    progress: {
      step,
      policy: { version: step, model: `run-v${step}-r2` },
      startAdapter: 'run-v0-r2',
      cursor: 16 * step,
      best: { step: 4, value: 0.1 + 0.2, adapter: 'run-v4' },
      skippedInARow: 1,
      alarmsInARow: 2,
      seconds: 12.000000000000002,
      ...about,
    },
  };
}

/** Every bit: -0 and 0 differ, and tensors come in the same order. */
function bitsOf({ learner, progress }: Checkpoint): unknown {
  const bytes = (data: Float32Array): string =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex');
  const adapter = (a: Checkpoint['learner']['adapter'] | null) =>
    a && { spec: a.spec, tensors: [...a.tensors].map(([name, t]) => [name, t.shape, bytes(t.data)]) };
  const moments = (m: Map<string, Float32Array>) => [...m].map(([name, data]) => [name, bytes(data)]);
  const { step, first, second } = learner.optimizer;
  return {
    adapter: adapter(learner.adapter),
    reference: adapter(learner.reference),
    optimizer: { step, first: moments(first), second: moments(second) },
    progress,
  };
}

const told: string[] = [];
const latest = async (): Promise<number | undefined> => {
  told.length = 0;
  return (await latestCheckpoint(root, about.configHash, (line) => told.push(line)))?.progress.step;
};
const put = (...steps: number[]) =>
  steps.reduce(async (before, step) => {
    await before;
    await writeCheckpoint(root, checkpoint(step), about);
  }, Promise.resolve());
const at = (step: number, ...rest: string[]) => join(root, `step-${String(step).padStart(6, '0')}`, ...rest);

describe('round trip', () => {
  it('gives back every bit, and the order of the tensors', async () => {
    for (const reference of [true, false]) {
      const written = checkpoint(7, { best: reference ? checkpoint(1).progress.best : null }, reference);
      const folder = await writeCheckpoint(root, written, about);
      expect(folder).toBe(at(7));
      const read = await readCheckpoint(folder);
      expect(bitsOf(read)).toEqual(bitsOf(written));
      expect(read.configHash).toBe('abc');
      expect(bitsOf((await latestCheckpoint(root, 'abc', () => {}))!)).toEqual(bitsOf(written));
    }
  });

  it('is the same bytes on disk for the same checkpoint, and replaces the one of that step', async () => {
    await put(7);
    const bytes = () =>
      readdirSync(at(7), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => [entry.name, readFileSync(join(entry.parentPath, entry.name)).toString('hex')]);
    const before = bytes();
    expect(before).toHaveLength(6);
    await put(7);
    expect(bytes()).toEqual(before);
    await writeCheckpoint(root, checkpoint(7, { cursor: 1 }), about);
    expect((await readCheckpoint(at(7))).progress.cursor).toBe(1);
    expect(readdirSync(root)).toEqual(['step-000007']);
  });
});

describe('latestCheckpoint', () => {
  it('takes the newest by step, not by name or by time', async () => {
    await put(1_000_000, 20, 999_999);
    expect(await latest()).toBe(1_000_000);
    rmSync(at(1_000_000), { recursive: true });
    expect(await latest()).toBe(999_999);
    expect(told).toEqual([]);
  });

  /** What a crash, a full disk or a person may do to the newest checkpoint. */
  const damages: Record<string, () => void> = {
    'state.json is cut off': () => truncateSync(at(20, 'state.json'), 100),
    'state.json is empty': () => truncateSync(at(20, 'state.json'), 0),
    'state.json is missing': () => rmSync(at(20, 'state.json')),
    'a key of state.json is missing': () => {
      const state = JSON.parse(readFileSync(at(20, 'state.json'), 'utf8'));
      delete state.progress.cursor;
      writeFileSync(at(20, 'state.json'), JSON.stringify(state));
    },
    'a key of state.json is renamed': () => {
      const text = readFileSync(at(20, 'state.json'), 'utf8');
      writeFileSync(at(20, 'state.json'), text.replace('"optimizerStep"', '"optimiserStep"'));
    },
    'one byte of the adapter is another': () => {
      const file = at(20, 'adapter', 'adapter_model.safetensors');
      const bytes = readFileSync(file);
      bytes[bytes.length - 3]! ^= 1;
      writeFileSync(file, bytes);
    },
    'the adapter is cut off': () => truncateSync(at(20, 'adapter', 'adapter_model.safetensors'), 200),
    'the adapter is missing': () => rmSync(at(20, 'adapter'), { recursive: true }),
    'the reference is missing': () => rmSync(at(20, 'reference'), { recursive: true }),
    'the optimiser is missing': () => rmSync(at(20, 'optimizer.safetensors')),
    'the optimiser is that of another step': () =>
      cpSync(at(10, 'optimizer.safetensors'), at(20, 'optimizer.safetensors')),
    'it is an empty folder': () => {
      rmSync(at(20), { recursive: true });
      mkdirSync(at(20));
    },
    'it is a file': () => {
      rmSync(at(20), { recursive: true });
      writeFileSync(at(20), '');
    },
  };
  for (const [what, damage] of Object.entries(damages))
    it(`skips the newest, says so once, and takes the one before: ${what}`, async () => {
      await put(10, 20);
      damage();
      expect(await latest()).toBe(10);
      expect(told).toHaveLength(1);
      expect(told[0]).toContain(at(20));
      expect(told[0]!.length).toBeGreaterThan(at(20).length + 30);
    });

  it('is a UserError when none is whole, after every torn one was named; null when there is none at all', async () => {
    expect(await latest()).toBeUndefined();
    expect(told).toEqual([]);
    await put(10, 20);
    truncateSync(at(10, 'state.json'), 7);
    rmSync(at(20, 'optimizer.safetensors'));
    await expect(latest()).rejects.toThrow(/no whole checkpoint.*\n.*--fresh/);
    expect(told.map((line) => /step-0000\d\d/.exec(line)![0])).toEqual(['step-000020', 'step-000010']);
  });

  it('refuses a checkpoint of another configuration, also when an older one would fit', async () => {
    await put(10);
    await writeCheckpoint(root, checkpoint(20), { ...about, configHash: 'other' });
    const failure = await latest().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(/step-000020.*another configuration/);
  });

  it('temporary folders of a killed process are no checkpoints, and in nobody’s way', async () => {
    await put(10);
    for (const name of [
      '.step-000020.tmp-1-0',
      `.step-000020.tmp-${process.pid}-0`,
      `.step-000010.tmp-${process.pid}-1`,
    ]) {
      cpSync(at(10), join(root, name), { recursive: true });
      truncateSync(join(root, name, 'state.json'), 50);
    }
    expect(await latest()).toBe(10);
    expect(told).toEqual([]);
    await put(10, 20);
    expect(await latest()).toBe(20);
    expect(told).toEqual([]);
  });

  it('a crash between moving the old one of a step aside and the new one in: the step before is there', async () => {
    await put(10, 20);
    renameSync(at(20), join(root, '.step-000020.tmp-77-3'));
    expect(await latest()).toBe(10);
    await put(20);
    expect(await latest()).toBe(20);
  });
});

describe('a full disk', () => {
  for (const where of ['state', 'tensors'] as const)
    it(`while the ${where} are written: one clear error, the old checkpoint whole, nothing half-written`, async () => {
      await put(10, 20);
      full.at = where;
      for (const step of [20, 30]) {
        const failure = await put(step).catch((error: unknown) => error);
        expect(failure).toBeInstanceOf(UserError);
        // The file is named by its temporary folder, which names the step.
        expect(String(failure)).toContain(root);
        expect(String(failure)).toContain(`step-0000${step}`);
        expect(String(failure)).toMatch(/disk is full/);
      }
      expect(await latest()).toBe(20);
      expect(readdirSync(root)).toEqual(['step-000010', 'step-000020']);
      expect(bitsOf(await readCheckpoint(at(20)))).toEqual(bitsOf(checkpoint(20)));
    });
});

describe('pruneCheckpoints', () => {
  it('keeps the newest and the best, and nothing that is no checkpoint is touched', async () => {
    await put(10, 20, 30, 40, 100);
    writeFileSync(join(root, 'notes.txt'), '');
    await pruneCheckpoints(root, 2, 20);
    expect(readdirSync(root).sort()).toEqual(['notes.txt', 'step-000020', 'step-000040', 'step-000100']);
    await pruneCheckpoints(root, 1, 100);
    expect(readdirSync(root).sort()).toEqual(['notes.txt', 'step-000100']);
    await pruneCheckpoints(root, 5, null);
    expect(existsSync(at(100))).toBe(true);
  });

  it('does nothing where there are none, or where the best has no checkpoint', async () => {
    await pruneCheckpoints(root, 1, 3);
    await put(10);
    await pruneCheckpoints(root, 1, 7);
    expect(await latest()).toBe(10);
  });
});
