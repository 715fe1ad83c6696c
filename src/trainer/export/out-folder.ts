/** Where an export may go: never over anything that is not one, and never over what it is made of. */
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { UserError } from '../../base/errors.ts';

/** Files of a model folder besides its weights that a merged model takes over from its base. */
export const isModelFile = (name: string): boolean =>
  [
    'config.json',
    'generation_config.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'special_tokens_map.json',
    'added_tokens.json',
    'vocab.json',
    'merges.txt',
    'tokenizer.model',
    'chat_template.jinja',
    'chat_template.json',
  ].includes(name) || /^(?:LICEN[CS]E|NOTICE|USE_POLICY)(?:\.(?:txt|md))?$/i.test(name);

const isExported = (name: string): boolean =>
  isModelFile(name) ||
  name === 'README.md' ||
  name === 'adapter_config.json' ||
  /^[\w.-]+\.safetensors(?:\.index\.json)?$/.test(name);

/**
 * @param sources folders that the export is made of.
 * @throws UserError when `out` is or holds one of them or lies in one, is a file, or holds something already:
 *   without `force`, or something that no export writes.
 */
export function checkOut(out: string, force: boolean, sources: readonly string[]): void {
  const place = realPlace(out);
  for (const source of sources) {
    const other = realPlace(source);
    if (isWithin(place, other) || isWithin(other, place))
      throw new UserError(`overlaps ${source}, which the export is made of`, out, 'choose another --out');
  }
  const stat = statSync(out, { throwIfNoEntry: false });
  if (!stat) return;
  if (!stat.isDirectory()) throw new UserError('is a file, not a folder', out, 'choose another --out');
  const content = readdirSync(out, { withFileTypes: true });
  if (content.length === 0) return;
  if (!force) throw new UserError('exists already', out, 'choose another --out, or replace it by --force');
  const stranger = content.find((entry) => entry.isDirectory() || !isExported(entry.name));
  if (stranger)
    throw new UserError(
      `holds ${stranger.name}, which no export writes: --force replaces exports only`,
      out,
      'choose another --out, or remove the folder yourself',
    );
}

const isWithin = (inner: string, outer: string): boolean => {
  const path = relative(outer, inner);
  return path === '' || (path !== '..' && !path.startsWith(`..${sep}`) && resolve(path) !== path);
};

/** The path without links; what does not exist yet is taken from its nearest folder that does. */
function realPlace(path: string): string {
  const absolute = resolve(path);
  if (existsSync(absolute)) return realpathSync(absolute);
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(realPlace(parent), absolute.slice(parent.length));
}
