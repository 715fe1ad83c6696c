import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

/** A folder may import from itself and from the rows below its own, types included. */
const ROWS = [
  ['cli'],
  ['trainer'],
  ['serve', 'eval', 'report', 'config'],
  ['rollout'],
  ['reward'],
  ['env'],
  ['engine'],
  ['base'],
];
const rowOf = (folder: string): number => ROWS.findIndex((row) => row.includes(folder));
const mayImport = (from: string, to: string): boolean => from === to || rowOf(from) < rowOf(to);

const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*)'([^']+)'/g;

interface Import {
  file: string;
  from: string;
  /** The folder of src, or null for a package. */
  to: string | null;
  specifier: string;
}

/** Every import of the program itself: tests and what supports them may look anywhere. */
const imports: Import[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|\.fixture\.ts$|(^|[\\/])test-support/.test(file))
  .flatMap((file) =>
    [...readFileSync(join(SRC, file), 'utf8').matchAll(IMPORT)].map(([, specifier]) => {
      const target = specifier!.startsWith('.') ? relative(SRC, join(SRC, dirname(file), specifier!)) : null;
      return { file, from: file.split(sep)[0]!, to: target && target.split(sep)[0]!, specifier: specifier! };
    }),
  );

describe('imports within src', () => {
  it('are found, in every folder, and every folder has its row', () => {
    const folders = readdirSync(SRC);
    expect(ROWS.flat().sort()).toEqual(folders.sort());
    for (const folder of folders) expect(imports.some(({ from }) => from === folder)).toBe(true);
  });

  it('point one way', () => {
    const wrong = imports.filter(({ from, to }) => to !== null && !mayImport(from, to));
    expect(wrong.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
  });

  it('keep the reward pure: no network, no file, no package but the schema', () => {
    const outside = imports.filter(({ from, to }) => from === 'reward' && to === null);
    expect(new Set(outside.map(({ specifier }) => specifier))).toEqual(new Set(['zod']));
  });
});
