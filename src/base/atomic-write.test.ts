import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';

/** The error code that the next write or flush of a file meets; null: none. */
const fault: { write: string | null; sync: string | null } = { write: null, sync: null };

vi.mock('node:fs/promises', async (importOriginal) => {
  const real = await importOriginal<typeof import('node:fs/promises')>();
  const broken = (code: string) => Object.assign(new Error(`${code}: injected`), { code });
  return {
    ...real,
    open: async (...args: Parameters<typeof real.open>): Promise<FileHandle> => {
      const handle = await real.open(...args);
      const append = handle.appendFile.bind(handle);
      const sync = handle.sync.bind(handle);
      handle.appendFile = async (...rest: Parameters<typeof append>) => {
        if (fault.write) throw broken(fault.write);
        return append(...rest);
      };
      handle.sync = async () => {
        if (fault.sync) throw broken(fault.sync);
        return sync();
      };
      return handle;
    },
  };
});

const { writeFileAtomic, writeFilesAtomic, writeFolderAtomic } = await import('./atomic-write.ts');
const { UserError } = await import('./errors.ts');

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-atomic-'));
  fault.write = null;
  fault.sync = null;
});

describe('writeFileAtomic', () => {
  test('writes text, bytes and chunks, makes the folder, leaves no temporary', async () => {
    const path = join(folder, 'a', 'b.txt');
    await writeFileAtomic(path, '法律');
    expect(readFileSync(path, 'utf8')).toBe('法律');
    await writeFileAtomic(path, Uint8Array.of(1, 2, 3));
    expect([...readFileSync(path)]).toEqual([1, 2, 3]);
    await writeFileAtomic(path, ['x', Uint8Array.of(0x79), 'z']);
    expect(readFileSync(path, 'utf8')).toBe('xyz');
    expect(readdirSync(join(folder, 'a'))).toEqual(['b.txt']);
  });

  for (const code of ['ENOSPC', 'EDQUOT']) {
    for (const at of ['write', 'sync'] as const) {
      test(`${code} at ${at}: one clear error, the old file as it was`, async () => {
        const path = join(folder, 'f.json');
        await writeFileAtomic(path, 'old');
        fault[at] = code;
        const failure = await writeFileAtomic(path, ['new', 'er']).catch((error: unknown) => error);
        expect(failure).toBeInstanceOf(UserError);
        expect(String(failure)).toContain(path);
        expect(String(failure)).toMatch(/disk/);
        fault[at] = null;
        expect(readFileSync(path, 'utf8')).toBe('old');
        expect(readdirSync(folder)).toEqual(['f.json']);
      });
    }
  }

  test('an error of the content passes through and leaves nothing', async () => {
    const chunks = function* () {
      yield 'half';
      throw new Error('ours');
    };
    await expect(writeFileAtomic(join(folder, 'f'), chunks())).rejects.toThrow('ours');
    expect(readdirSync(folder)).toEqual([]);
  });

  test('a folder of that name, and a file as parent, are user errors', async () => {
    mkdirSync(join(folder, 'd', 'e'), { recursive: true });
    await expect(writeFileAtomic(join(folder, 'd'), 'x')).rejects.toThrow(UserError);
    writeFileSync(join(folder, 'file'), '');
    await expect(writeFileAtomic(join(folder, 'file', 'x'), 'x')).rejects.toThrow(UserError);
    expect(readdirSync(folder).sort()).toEqual(['d', 'file']);
  });

  test('writers of one file at the same time: one of them wins whole', async () => {
    const path = join(folder, 'f');
    const texts = Array.from({ length: 8 }, (_, i) => String(i).repeat(10_000));
    await Promise.all(texts.map((text) => writeFileAtomic(path, text)));
    expect(texts).toContain(readFileSync(path, 'utf8'));
    expect(readdirSync(folder)).toEqual(['f']);
  });
});

describe('writeFilesAtomic', () => {
  test('all are there, also in folders that were not', async () => {
    const [a, b] = [join(folder, 'x', 'a'), join(folder, 'y', 'b')];
    await writeFilesAtomic([
      [a, '1'],
      [b, '2'],
    ]);
    expect([a, b].map((path) => readFileSync(path, 'utf8'))).toEqual(['1', '2']);
  });

  test('an error in a later one leaves the earlier as they were, and no temporary', async () => {
    const [a, b] = [join(folder, 'a'), join(folder, 'b')];
    await writeFileAtomic(a, 'old');
    const failing = function* () {
      yield 'half';
      throw new Error('ours');
    };
    const failure = writeFilesAtomic([
      [a, 'new'],
      [b, failing()],
    ]);
    await expect(failure).rejects.toThrow('ours');
    expect(readFileSync(a, 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['a']);
  });

  test('the file that cannot be written is the one that is named', async () => {
    writeFileSync(join(folder, 'file'), '');
    const below = join(folder, 'file', 'b');
    const failure = writeFilesAtomic([
      [join(folder, 'a'), '1'],
      [below, '2'],
    ]);
    await expect(failure).rejects.toThrow(below);
    expect(readdirSync(folder)).toEqual(['file']);
  });
});

describe('writeFolderAtomic', () => {
  const fill = (text: string) => async (inside: string) => {
    mkdirSync(join(inside, 'deep'));
    writeFileSync(join(inside, 'deep', 'x'), text);
  };

  test('the folder appears whole', async () => {
    const path = join(folder, 'p', 'checkpoint');
    await writeFolderAtomic(path, async (inside) => {
      expect(existsSync(path)).toBe(false);
      await fill('1')(inside);
    });
    expect(readFileSync(join(path, 'deep', 'x'), 'utf8')).toBe('1');
    expect(readdirSync(join(folder, 'p'))).toEqual(['checkpoint']);
  });

  test('several that replace one folder at once: each succeeds, one is there whole, nothing is left', async () => {
    const path = join(folder, 'same');
    for (let round = 0; round < 20; round++) {
      const writers = Array.from({ length: 4 }, (_, writer) =>
        writeFolderAtomic(
          path,
          async (temporary) => {
            for (const name of ['a', 'b']) writeFileSync(join(temporary, name), String(writer));
          },
          { replace: true },
        ),
      );
      await Promise.all(writers);
      const [a, b] = ['a', 'b'].map((name) => readFileSync(join(path, name), 'utf8'));
      expect(a).toBe(b);
      expect(readdirSync(folder)).toEqual(['same']);
    }
  });

  test('an existing one is refused, or replaced when asked', async () => {
    const path = join(folder, 'c');
    await writeFolderAtomic(path, fill('1'));
    await expect(writeFolderAtomic(path, fill('2'))).rejects.toThrow(/exists/);
    expect(readFileSync(join(path, 'deep', 'x'), 'utf8')).toBe('1');
    await writeFolderAtomic(path, fill('3'), { replace: true });
    expect(readFileSync(join(path, 'deep', 'x'), 'utf8')).toBe('3');
    expect(readdirSync(folder)).toEqual(['c']);
  });

  test('a full disk while it is filled leaves the old folder and nothing else', async () => {
    const path = join(folder, 'c');
    await writeFolderAtomic(path, fill('1'));
    const failing = writeFolderAtomic(
      path,
      async (inside) => {
        await fill('2')(inside);
        fault.write = 'ENOSPC';
        await writeFileAtomic(join(inside, 'y'), 'y');
      },
      { replace: true },
    );
    const failure = await failing.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toContain(`${join(path, 'y')}: the disk is full`);
    expect(String(failure)).not.toContain('.tmp-');
    expect(readFileSync(join(path, 'deep', 'x'), 'utf8')).toBe('1');
    expect(readdirSync(folder)).toEqual(['c']);
  });
});
