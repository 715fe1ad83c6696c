import { parseArgs } from 'node:util';

/**
 * Options of a maintainers' program that are whole numbers, `--name N` on its command line, with these defaults;
 * from 1 on, `seed` from 0. Throws an Error for any other number and any other option.
 */
export function wholeOptions<K extends string>(
  defaults: Record<K, number>,
  args = process.argv.slice(2),
): Record<K, number> {
  const names = Object.keys(defaults) as K[];
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  const { values } = parseArgs({ args, options });
  const read = (name: K): number => {
    const text = values[name];
    if (text === undefined) return defaults[name];
    const least = name === 'seed' ? 0 : 1;
    if (/^\d{1,9}$/.test(String(text)) && Number(text) >= least) return Number(text);
    throw new Error(`--${name} is a whole number from ${least} on, not ${text}`);
  };
  return Object.fromEntries(names.map((name) => [name, read(name)])) as Record<K, number>;
}
