import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { appendHistory, currentChampion, readHistory, setFile } from './registry.ts';
import { lockRegistry } from './registry-lock.ts';
import {
  CHAMPION,
  fakeTools,
  kindsOf,
  newPlace,
  type Place,
  runJob,
  worthOf,
} from './test-support-retrain.ts';
import type { RetrainTools } from './work.ts';

const places: Place[] = [];
afterEach(() => {
  for (const { root } of places.splice(0)) rmSync(root, { recursive: true, force: true });
});
const placeOf = (...change: string[]): Place => {
  const place = newPlace(change);
  places.push(place);
  return place;
};

const lineCount = (file: string) => readFileSync(file, 'utf8').trim().split('\n').length;

test('the first job trains from the start of the configuration, and is promoted when it beats the base model', async () => {
  const place = placeOf();
  place.put(0, 5);
  const tools = fakeTools(worthOf({ base: 0.25, [CHAMPION]: 0.5 }));
  const record = await runJob(place, tools);
  expect(record).toMatchObject({
    kind: 'promoted',
    run: 'nightly-20261201-1',
    before: null,
    after: CHAMPION,
    figures: { metric: 'recall', questions: 20, champion: 0.25, challenger: 0.5 },
    pairs: { train: 5, heldOut: 0, known: 0, refused: 0 },
    trainingSet: { questions: 8 },
    by: { trigger: 'schedule', host: 'here' },
  });
  expect(tools.evaluated).toEqual([null, CHAMPION]);
  const [trained] = tools.trained;
  expect(trained!.sft).toBeDefined();
  expect(trained!.lora.start).toBeUndefined();
  expect(lineCount(trained!.data.train)).toBe(8);
  expect(currentChampion(place.registry)).toBe(CHAMPION);
  const kept = join(place.registry.champions, CHAMPION);
  expect(readFileSync(join(kept, 'adapter_model.safetensors'), 'utf8')).toBe('nightly-20261201-1');
  expect(readdirSync(place.registry.root).sort()).toEqual(
    ['champions', 'current.json', 'fence', 'history.jsonl', 'reports', 'sets'].sort(),
  );
});

test('later jobs start from the champion without the warm start, add to the set, and a worse one changes nothing', async () => {
  const place = placeOf();
  const worth = worthOf({ base: 0.2, [CHAMPION]: 0.4, 'nightly-20261201-2-v3': 0.1 });
  place.put(0, 5);
  const first = await runJob(place, fakeTools(worth));
  place.put(5, 8);
  const tools = fakeTools(worth);
  const second = await runJob(place, tools);
  expect(second).toMatchObject({
    kind: 'refused',
    run: 'nightly-20261201-2',
    before: CHAMPION,
    after: CHAMPION,
    pairs: { train: 3, known: 0 },
    trainingSet: { questions: 11 },
  });
  const [trained] = tools.trained;
  expect(trained!.sft).toBeUndefined();
  expect(trained!.lora.start).toBe(join(place.registry.champions, CHAMPION));
  expect(trained!.retrain).toBeUndefined();
  expect(currentChampion(place.registry)).toBe(CHAMPION);
  expect(readdirSync(place.registry.champions)).toEqual([CHAMPION]);
  // The sets of before are as they were.
  if (typeof first !== 'string') expect(lineCount(setFile(place.registry, first.trainingSet!.hash))).toBe(8);
});

test('too few new pairs: nothing is trained, and they count again with the next ones', async () => {
  const place = placeOf('retrain.minNewPairs=4');
  place.put(0, 3);
  const tools = fakeTools(() => 0.5);
  expect(await runJob(place, tools)).toMatchObject({ kind: 'nothing', pairs: { train: 3 } });
  expect(tools.trained).toEqual([]);
  place.put(3, 5);
  expect(await runJob(place, tools)).toMatchObject({ kind: 'refused', pairs: { train: 5 } });
  expect(await runJob(place, tools)).toMatchObject({ kind: 'nothing', pairs: { train: 0, known: 0 } });
});

test('refused pairs are in a report, with file and line', async () => {
  const place = placeOf();
  place.put(0, 2);
  writeFileSync(
    join(place.root, 'inbox', 'z.jsonl'),
    '{"id": "x", "query": "q", "gold": ["zz"]}\nnonsense\n',
  );
  const record = await runJob(
    place,
    fakeTools(() => 0),
  );
  expect(record).toMatchObject({ pairs: { train: 2, refused: 2 } });
  const report = readFileSync(join(place.registry.reports, 'nightly-20261201-1', 'refused.jsonl'), 'utf8');
  expect(
    report
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual([
    { file: 'z.jsonl', line: 1, id: 'x', reason: 'gold article "zz" is not in the corpus' },
    { file: 'z.jsonl', line: 2, id: null, reason: expect.stringContaining('not valid JSON') },
  ]);
});

test('a growing held-out set is what both are measured on', async () => {
  const place = placeOf('retrain.holdout=0.5');
  place.put(0, 40);
  const record = await runJob(
    place,
    fakeTools(() => 0.5),
  );
  if (typeof record === 'string') throw new Error(record);
  const { heldOut } = record.pairs!;
  expect(heldOut).toBeGreaterThan(8);
  expect(record.figures!.questions).toBe(20 + heldOut);
  place.put(0, 44);
  const next = await runJob(
    place,
    fakeTools(() => 0.5),
  );
  if (typeof next === 'string') throw new Error(next);
  expect(next.pairs!.known).toBe(40);
  expect(next.heldOut!.questions).toBe(20 + heldOut + next.pairs!.heldOut);
});

test('a job that fails says so in the history, and the next one goes on where it was', async () => {
  const place = placeOf();
  place.put(0, 5);
  const worth = worthOf({ base: 0.2, [CHAMPION]: 0.4 });
  const broken = fakeTools(worth, {
    evaluate: async () => {
      throw new UserError('is down', 'endpoint');
    },
  });
  await expect(runJob(place, broken)).rejects.toThrow('is down');
  // Pairs that come meanwhile are for the job after this one.
  place.put(5, 9);
  const tools = fakeTools(worth);
  expect(await runJob(place, tools)).toMatchObject({ kind: 'promoted', pairs: { train: 5 } });
  expect(tools.trained).toEqual([]);
  expect(kindsOf(place)).toEqual(['failed', 'promoted']);
  expect(readHistory(place.registry)[0]).toMatchObject({
    run: 'nightly-20261201-1',
    why: expect.stringContaining('is down'),
  });
  expect(await runJob(place, fakeTools(worth))).toMatchObject({ pairs: { train: 4 } });
});

test('questions without a rollout decide nothing', async () => {
  const place = placeOf();
  place.put(0, 5);
  const good = fakeTools(worthOf({ base: 0.2, [CHAMPION]: 0.9 }));
  const failing: RetrainTools = {
    ...good,
    evaluate: async (...args) => ({ ...(await good.evaluate(...args)), failed: args[1] === null ? 1 : 0 }),
  };
  await expect(runJob(place, failing)).rejects.toThrow(
    /1 of 20 held-out questions have no rollout of the champion/,
  );
  expect(currentChampion(place.registry)).toBe(null);
});

test('an interrupted job says nothing in the history and is gone on with; with other settings it is given up', async () => {
  const place = placeOf();
  place.put(0, 5);
  const stopped = fakeTools(() => 0, { train: async () => null });
  expect(await runJob(place, stopped)).toBe('interrupted');
  expect(existsSync(place.registry.history)).toBe(false);
  const config = { ...place.config, train: { ...place.config.train, evalEvery: 7 } };
  // Rules around the training are not its settings.
  const rules = { ...place.config, retrain: { ...place.config.retrain!, minNewPairs: 3 } };
  expect(await runJob(place, stopped, { config: rules })).toBe('interrupted');
  expect(stopped.lines.filter((text) => text.startsWith('going on with nightly-20261201-1'))).toHaveLength(1);
  expect(
    await runJob(
      place,
      fakeTools(() => 0),
      { config },
    ),
  ).toMatchObject({ kind: 'refused', run: 'nightly-20261201-2' });
  expect(kindsOf(place)).toEqual(['abandoned', 'refused']);
});

test('--fresh gives an unfinished job up, and its pairs count again', async () => {
  const place = placeOf();
  place.put(0, 5);
  await runJob(
    place,
    fakeTools(() => 0, { train: async () => null }),
  );
  const record = await runJob(
    place,
    fakeTools(() => 0),
    { fresh: true },
  );
  expect(record).toMatchObject({ kind: 'refused', run: 'nightly-20261201-2', pairs: { train: 5 } });
});

test('a set keeps all that is known of a question: its date, its answer, the precedents it may not see', async () => {
  const place = placeOf();
  const label = {
    id: 'label',
    query: '量刑',
    gold: ['a1'],
    date: '2020-01-01',
    answer: { kind: 'number', value: 36, tolerance: 6 },
    exclude: ['p1'],
  };
  place.put(0, 5);
  writeFileSync(join(place.root, 'inbox', 'label.jsonl'), `${JSON.stringify(label)}\n`);
  const tools = fakeTools(() => 0);
  await runJob(place, tools);
  const trained = readFileSync(tools.trained[0]!.data.train, 'utf8').trim().split('\n');
  expect(trained.map((text) => JSON.parse(text)).find(({ id }) => id === 'label')).toEqual(label);
  // The bytes, and so the name, of a set of plain pairs are what they always were.
  expect(trained[0]).toBe('{"id":"t0","query":"问题 t 0","gold":["a1"]}');
});

test('two at once: the second is skipped, says so in the history, and touches nothing', async () => {
  const place = placeOf();
  place.put(0, 5);
  const second = fakeTools(() => 0);
  let seen: unknown;
  const first = fakeTools(() => 0);
  const tools: RetrainTools = {
    ...first,
    train: async (...args) => {
      seen = await runJob(place, second);
      return first.train(...args);
    },
  };
  expect(await runJob(place, tools)).toMatchObject({ kind: 'refused' });
  expect(seen).toMatchObject({ kind: 'skipped', why: expect.stringContaining(`process ${process.pid}`) });
  expect(second.trained).toEqual([]);
  expect(kindsOf(place)).toEqual(['skipped', 'refused']);
});

test('a job whose lock was taken over writes nothing any more', async () => {
  const place = placeOf();
  place.put(0, 5);
  const worth = worthOf({ base: 0.2, [CHAMPION]: 0.9 });
  const tools = fakeTools(worth);
  const thrown = runJob(place, {
    ...tools,
    async evaluate(...args) {
      // As if this process had slept for so long that another one took the registry.
      rmSync(join(place.registry.root, '.lock'), { force: true });
      const other = await lockRegistry(place.registry.root, new Date(0));
      if (!('heldBy' in other)) other.release();
      return tools.evaluate(...args);
    },
  });
  await expect(thrown).rejects.toThrow(/another process took the registry/);
  expect(currentChampion(place.registry)).toBe(null);
  expect(existsSync(place.registry.history)).toBe(false);
});

test('a torn line of the history is nobody’s; what comes next has a line of its own', async () => {
  const place = placeOf();
  mkdirSync(place.registry.root);
  const record = { at: 'x', kind: 'nothing', why: '', by: { trigger: 'hand', host: '' }, lexpo: '' } as const;
  await appendHistory(place.registry, record);
  writeFileSync(place.registry.history, '{"at":"y","kin', { flag: 'a' });
  await appendHistory(place.registry, record);
  expect(readHistory(place.registry)).toEqual([record, record]);
  writeFileSync(place.registry.history, '{"kind":"promoted"}\n', { flag: 'a' });
  expect(() => readHistory(place.registry)).toThrow(/history.jsonl:4: at: .*newer lexpo/s);
});

test('what cannot be: no section, a name too long, a server that knows one folder of adapters', async () => {
  const place = placeOf();
  const tools = fakeTools(() => 0);
  const { retrain: _, ...without } = place.config;
  await expect(runJob(place, tools, { config: without })).rejects.toThrow(/retrain: the section is missing/);
  const long = { ...place.config, run: { ...place.config.run, name: 'n'.repeat(53) } };
  await expect(runJob(place, tools, { config: long })).rejects.toThrow(/run.name: is longer than 52/);
  rmSync(join(place.root, 'inbox'), { recursive: true });
  await expect(runJob(place, tools)).rejects.toThrow(/inbox: no such folder/);
  expect(kindsOf(place)).toEqual(['failed']);
});
