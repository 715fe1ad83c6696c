/**
 * Names of a run's adapters, `<run>-v<version>`, never used for other weights: a version that has to be
 * written again with others gets a suffix, `<run>-v<version>-r<attempt>`, attempt from 2.
 */
export interface AdapterName {
  version: number;
  attempt: number;
}

export function adapterName(runName: string, { version, attempt }: AdapterName): string {
  const plain = `${runName}-v${version}`;
  return attempt === 1 ? plain : `${plain}-r${attempt}`;
}

/** Null for what is no adapter's name. */
export function parseAdapterName(name: string): AdapterName | null {
  const found = /^[^.].*-v(\d+)(?:-r(\d+))?$/.exec(name);
  return found && { version: Number(found[1]), attempt: Number(found[2] ?? 1) };
}

/** The newest of a run's adapters: the highest version, of that the last attempt; undefined where none is one. */
export function newestAdapter(names: readonly string[]): string | undefined {
  const found = names.flatMap((name) => {
    const about = parseAdapterName(name);
    return about ? [{ name, ...about }] : [];
  });
  return found.sort((a, b) => b.version - a.version || b.attempt - a.attempt)[0]?.name;
}
