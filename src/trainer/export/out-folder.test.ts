import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { checkOut } from './out-folder.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-out-'));
  mkdirSync(join(root, 'base'));
  return () => rmSync(root, { recursive: true });
});
const check = (name: string, force = false): void => checkOut(join(root, name), force, [join(root, 'base')]);

test('a new or empty folder, and with force an earlier export', () => {
  check('new');
  check('new/deeper/still');
  check('base-of-another');
  mkdirSync(join(root, 'out'));
  check('out');
  for (const name of ['README.md', 'adapter_config.json', 'adapter_model.safetensors'])
    writeFileSync(join(root, 'out', name), '');
  expect(() => check('out')).toThrow(/exists already[\s\S]*--force/);
  check('out', true);
  for (const name of [
    'config.json',
    'model-00001-of-00002.safetensors',
    'model.safetensors.index.json',
    'LICENSE',
  ])
    writeFileSync(join(root, 'out', name), '');
  check('out', true);
});

test('force removes nothing that no export writes', () => {
  mkdirSync(join(root, 'out', 'adapters'), { recursive: true });
  expect(() => check('out', true)).toThrow(/holds adapters, which no export writes/);
  rmSync(join(root, 'out', 'adapters'), { recursive: true });
  writeFileSync(join(root, 'out', 'thesis.tex'), '');
  expect(() => check('out', true)).toThrow(/holds thesis.tex/);
  writeFileSync(join(root, 'file'), '');
  expect(() => check('file', true)).toThrow(/is a file/);
});

test('never over, around or inside what the export is made of, by whatever path', () => {
  symlinkSync(join(root, 'base'), join(root, 'link'));
  for (const name of ['base', '.', 'base/inside', 'base/../base', 'link', 'link/inside'])
    for (const force of [false, true]) expect(() => check(name, force), name).toThrow(/overlaps/);
});
