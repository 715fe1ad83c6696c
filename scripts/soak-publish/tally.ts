/** What a soak counts. */
import type { Route } from '../../test/hostile-endpoint/hostile-endpoint.ts';

/** What became of a publication: served by all three, by fewer (the others left the rotation), or by none. */
export type Came = 'everywhere' | 'withoutSome' | 'keptOld';

export interface FaultCount {
  /** Requests that it befell, by route; restarts under `process`. */
  hits: Partial<Record<Route | 'process', number>>;
  /** Publications during which it was planned and did occur, by what became of them. */
  came: Record<Came, number>;
}

export interface Tally {
  publications: Record<Came, number>;
  /** By the fault's name. */
  faults: Record<string, FaultCount>;
  /** How often a replica left the rotation, and came back. */
  exits: number;
  comebacks: number;
  rollouts: { accepted: number; failed: Record<string, number> };
  /** Accepted answers by other weights than those asked of. */
  wrongPolicy: number;
  /** Times without faults, and in how many not all replicas came back, or a publication was refused. */
  calm: { times: number; stuck: number; refused: number };
  /** Adapters that stayed loaded and are not in use. */
  leaked: number;
  /** Replicas in rotation when all faults had ended. */
  inRotation: number;
}

export const emptyTally = (): Tally => ({
  publications: { everywhere: 0, withoutSome: 0, keptOld: 0 },
  faults: {},
  exits: 0,
  comebacks: 0,
  rollouts: { accepted: 0, failed: {} },
  wrongPolicy: 0,
  calm: { times: 0, stuck: 0, refused: 0 },
  leaked: 0,
  inRotation: 0,
});

export interface Hit {
  where: Route | 'process';
  /** Of the fault. */
  name: string;
}

/** Adds one publication: what became of it, the faults that occurred, and those of them that were planned for it. */
export function note(tally: Tally, came: Came, hits: readonly Hit[], planned: readonly string[]): void {
  tally.publications[came]++;
  for (const { where, name } of hits) {
    const count = faultCount(tally, name);
    count.hits[where] = (count.hits[where] ?? 0) + 1;
  }
  for (const name of new Set(planned))
    if (hits.some((hit) => hit.name === name && hit.where !== 'completions'))
      faultCount(tally, name).came[came]++;
}

function faultCount({ faults }: Tally, name: string): FaultCount {
  faults[name] ??= { hits: {}, came: { everywhere: 0, withoutSome: 0, keptOld: 0 } };
  return faults[name];
}

/** Both together: numbers add up, at any depth. */
export function sum<T>(a: T, b: T): T {
  if (typeof a === 'number') return ((a as number) + (b as number)) as T;
  const [left, right] = [a, b] as Record<string, unknown>[];
  const keys = new Set([...Object.keys(left!), ...Object.keys(right!)]);
  const both = [...keys].map((key) => {
    const [x, y] = [left![key], right![key]];
    return [key, x === undefined ? y : y === undefined ? x : sum(x, y)];
  });
  return Object.fromEntries(both) as T;
}

/** Whether the soak shows what it must. */
export const isSound = ({ wrongPolicy, leaked, calm }: Tally): boolean =>
  wrongPolicy === 0 && leaked === 0 && calm.stuck === 0 && calm.refused === 0;
