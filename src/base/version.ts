import { readFileSync } from 'node:fs';

/** The version in package.json, which stands two folders above this file in sources and in the package. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
