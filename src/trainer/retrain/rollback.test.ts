import { rmSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { currentChampion } from './registry.ts';
import { championStack, rollBack } from './rollback.ts';
import {
  CHAMPION,
  fakeTools,
  kindsOf,
  newPlace,
  type Place,
  runJob,
  worthOf,
} from './test-support-retrain.ts';

const places: Place[] = [];
afterEach(() => {
  for (const { root } of places.splice(0)) rmSync(root, { recursive: true, force: true });
});
const placeOf = (...change: string[]): Place => {
  const place = newPlace(change);
  places.push(place);
  return place;
};

test('a champion that was rolled back during the job is not replaced by what was measured against it', async () => {
  const place = placeOf();
  const worth = worthOf({ base: 0.2, [CHAMPION]: 0.4, 'nightly-20261201-2-v3': 0.6 });
  place.put(0, 5);
  await runJob(place, fakeTools(worth));
  place.put(5, 9);
  const about = { at: new Date(0), host: 'here', fullHash: 'h' };
  // Killed behind the decision.
  const dying = fakeTools(worth, {
    log(text) {
      if (text.endsWith('next is end')) throw new Error('dead');
    },
  });
  await expect(runJob(place, dying)).rejects.toThrow('dead');
  await rollBack(place.registry.root, null, about, null);
  const record = await runJob(place, fakeTools(worth));
  expect(record).toMatchObject({
    kind: 'refused',
    why: expect.stringContaining('champion changed'),
    after: null,
  });
  expect(currentChampion(place.registry)).toBe(null);
});

test('rolling back twice goes further back, and a champion may be named', async () => {
  const place = placeOf();
  const names = [1, 2, 3].map((n) => `nightly-20261201-${n}-v3`);
  const worth = (name: string | null) => (name === null ? 0 : 0.2 * (1 + names.indexOf(name)));
  for (const n of [0, 1, 2]) {
    place.put(n * 5, n * 5 + 5);
    await runJob(place, fakeTools(worth));
  }
  const about = { at: new Date(0), host: 'here', fullHash: 'h' };
  const { root } = place.registry;
  const back = async (to: string | null = null) => (await rollBack(root, to, about, null)).after;
  expect(currentChampion(place.registry)).toBe(names[2]);
  expect(await back()).toBe(names[1]);
  expect(await back()).toBe(names[0]);
  expect(await back()).toBe(null);
  await expect(back()).rejects.toThrow(/no champion to go back from/);
  expect(await back(names[2]!)).toBe(names[2]);
  expect(await back(names[0]!)).toBe(names[0]);
  await expect(back(names[0]!)).rejects.toThrow(/champion already/);
  await expect(back('other')).rejects.toThrow(/no champion of this registry/);
  await expect(back('../champions')).rejects.toThrow(/no champion of this registry/);
  // The next job is measured against what is in use now.
  place.put(20, 25);
  expect(
    await runJob(
      place,
      fakeTools(() => 0),
    ),
  ).toMatchObject({ before: names[0], kind: 'refused' });
  expect(kindsOf(place).filter((kind) => kind === 'rolled-back')).toHaveLength(5);
});

test('the stack of champions, from the history alone', () => {
  const at = (kind: 'promoted' | 'rolled-back' | 'refused', after: string | null) =>
    ({ kind, after, at: '', why: '', by: { trigger: 'hand', host: '' }, lexpo: '' }) as const;
  expect(championStack([at('promoted', 'a'), at('promoted', 'b'), at('refused', 'b')])).toEqual(['a', 'b']);
  expect(championStack([at('promoted', 'a'), at('promoted', 'b'), at('rolled-back', 'a')])).toEqual(['a']);
  const again = [at('promoted', 'a'), at('promoted', 'b'), at('rolled-back', 'a'), at('promoted', 'c')];
  expect(championStack(again)).toEqual(['a', 'c']);
  expect(championStack([...again, at('rolled-back', 'b')])).toEqual(['a', 'c', 'b']);
  expect(championStack([at('promoted', 'a'), at('rolled-back', null)])).toEqual([]);
});
