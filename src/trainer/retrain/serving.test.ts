import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { adapterOf, type FakeServer, fail, fakeServer } from '../../rollout/test-support-replicas.ts';
import { currentChampion, type Registry } from './registry.ts';
import { rollBack } from './rollback.ts';
import { type Serving, servingOf } from './serving.ts';
import { fakeTools, kindsOf, newPlace, type Place, runJob } from './test-support-retrain.ts';

const places: Place[] = [];
afterEach(() => {
  for (const { root } of places.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** A registry with the champions `run-v1` … `run-v<n>`, each with its proof, and servers over it. */
function placeOf(champions: number, servers: number) {
  const place = newPlace();
  places.push(place);
  const { registry } = place;
  for (let version = 1; version <= champions; version++) {
    const { name, proof } = adapterOf(version);
    mkdirSync(join(registry.champions, name), { recursive: true });
    writeFileSync(join(registry.champions, name, 'proof.json'), JSON.stringify(proof));
  }
  const fakes = Array.from({ length: servers }, fakeServer);
  const lines: string[] = [];
  const serving = servingOf(
    {
      servers: fakes.map(({ endpoint }, i) => ({ name: 'abc'[i]!, endpoint, adapterRoot: null })),
      tolerance: 0.01,
    },
    (line) => lines.push(line),
  );
  return { place, registry, fakes, serving, lines };
}

const loadedOn = (fakes: FakeServer[]): string[][] => fakes.map(({ loaded }) => [...loaded.keys()]);

test('a champion is loaded from the registry on every server, proved, and not loaded twice', async () => {
  const { registry, fakes, serving, lines } = placeOf(1, 2);
  await serving.serve(registry, 'run-v1', null);
  await serving.serve(registry, 'run-v1', 'run-v1');
  expect(fakes.map(({ loaded }) => loaded.get('run-v1'))).toEqual(
    Array(2).fill(join(registry.champions, 'run-v1')),
  );
  expect(fakes.map(({ log }) => log.filter((line) => line.startsWith('load')).length)).toEqual([1, 1]);
  expect(lines[0]).toBe('run-v1 is served and proved on 2 servers');
});

test.each<[string, (server: FakeServer) => void, RegExp]>([
  ['refuses it', (server) => (server.faults.load = fail('http', 'rank 64 is above 16', 400)), /rank 64/],
  ['is gone', (server) => (server.alive = false), /ECONNREFUSED/],
  ['answers with the base model', (server) => (server.answersAs = () => [-1, -2, -3]), /base model/],
  [
    'answers with the champion before',
    (server) => {
      const { proof } = adapterOf(1);
      server.answersAs = () => proof!.policy;
    },
    /older version, run-v1/,
  ],
])('one that %s: none keeps the new champion, the old one stays on all', async (_, spoil, why) => {
  const { registry, fakes, serving } = placeOf(2, 2);
  await serving.serve(registry, 'run-v1', null);
  spoil(fakes[1]!);
  await expect(serving.serve(registry, 'run-v2', 'run-v1')).rejects.toThrow(why);
  expect(loadedOn(fakes)).toEqual([['run-v1'], ['run-v1']]);
});

test('only champions of this registry are ever unloaded, and those to be kept stay', async () => {
  const { registry, fakes, serving, lines } = placeOf(3, 2);
  for (const name of ['run-v1', 'run-v2', 'run-v3']) await serving.serve(registry, name, null);
  fakes[0]!.loaded.set('somebody-elses', '/there');
  fakes[1]!.faults.unload = fail('http', 'busy', 500);
  await serving.retire(registry, ['run-v3', 'run-v2', null]);
  expect(loadedOn(fakes)).toEqual([
    ['run-v2', 'run-v3', 'somebody-elses'],
    ['run-v1', 'run-v2', 'run-v3'],
  ]);
  expect(lines.at(-1)).toMatch(/^b keeps older champions loaded: busy/);
});

/** Servers as a job sees them: what was asked of them, and whether they refuse. */
function recorded(
  state: { refuses: boolean; calls: string[] },
  pointer: (registry: Registry) => string | null,
): Serving {
  return {
    async serve(registry, name, now) {
      state.calls.push(`serve ${name} while ${pointer(registry)} is in use, now ${now}`);
      if (state.refuses) throw new Error('does not serve it');
    },
    async retire(_, kept) {
      state.calls.push(`retire all but ${kept.join(' and ')}`);
    },
  };
}

test('a job moves the pointer behind the servers; one that they refuse is tried again, not trained again', async () => {
  const place = newPlace();
  places.push(place);
  const state = { refuses: true, calls: [] as string[] };
  const names = ['nightly-20261201-1-v3', 'nightly-20261201-2-v3'];
  const tools = fakeTools((name) => (name === null ? 0 : 0.3 * (1 + names.indexOf(name))), {
    serving: () => recorded(state, currentChampion),
  });
  place.put(0, 5);
  await expect(runJob(place, tools)).rejects.toThrow('does not serve it');
  expect(currentChampion(place.registry)).toBe(null);
  state.refuses = false;
  expect(await runJob(place, tools)).toMatchObject({ kind: 'promoted', after: names[0] });
  expect(tools.trained).toHaveLength(1);
  place.put(5, 9);
  await runJob(place, tools);
  expect(state.calls).toEqual([
    `serve ${names[0]} while null is in use, now null`,
    `serve ${names[0]} while null is in use, now null`,
    `retire all but ${names[0]} and `,
    `serve ${names[1]} while ${names[0]} is in use, now ${names[0]}`,
    `retire all but ${names[1]} and ${names[0]}`,
  ]);
  expect(kindsOf(place)).toEqual(['failed', 'promoted', 'promoted']);

  // The way back: the servers first here too.
  const about = { at: new Date(0), host: 'here', fullHash: 'h' };
  state.refuses = true;
  const back = () => rollBack(place.registry.root, null, about, recorded(state, currentChampion));
  await expect(back()).rejects.toThrow('does not serve it');
  expect(currentChampion(place.registry)).toBe(names[1]);
  state.refuses = false;
  expect(await back()).toMatchObject({ after: names[0] });
  expect(state.calls.at(-1)).toBe(`retire all but ${names[0]} and ${names[1]}`);
});

test('a challenger that is refused reaches no server', async () => {
  const place = newPlace();
  places.push(place);
  const state = { refuses: false, calls: [] as string[] };
  place.put(0, 5);
  const tools = fakeTools(() => 0.5, { serving: () => recorded(state, currentChampion) });
  expect(await runJob(place, tools)).toMatchObject({ kind: 'refused' });
  expect(state.calls).toEqual([]);
});
