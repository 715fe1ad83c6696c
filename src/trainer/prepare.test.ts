import { expect, test } from 'vitest';
import { type Config, configSchema } from '../config/schema.ts';
import { corpusOf } from '../env/corpus.ts';
import { configHash, type Data, dataWarnings } from './prepare.ts';

const configOf = (change: object = {}): Config =>
  configSchema.parse({
    run: { name: 'x' },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 3 },
    ...change,
  });
const articles = [{ id: 'a1', title: 't', text: 'x' }];
const queries = [{ id: 'q1', query: 'q', gold: ['a1'] }];
const data: Data = { corpus: corpusOf(articles), train: queries, validation: queries };

test('the hash of a run: more steps are the same run, other settings or data are not', () => {
  const hash = configHash(configOf(), data);
  const same = [
    configOf({ train: { steps: 9 } }),
    configOf({ train: { steps: 3, keep: 5 } }),
    configOf({ run: { name: 'x', dir: 'y' } }),
  ];
  expect(same.map((config) => configHash(config, { ...data }))).toEqual(same.map(() => hash));
  const others = [
    configHash(configOf({ run: { name: 'x', seed: 2 } }), data),
    configHash(configOf({ train: { steps: 3, evalEvery: 1 } }), data),
    configHash(configOf({ reward: { hit: 0.3 } }), data),
    configHash(configOf(), { ...data, corpus: corpusOf([{ ...articles[0]!, text: 'y' }]) }),
    configHash(configOf(), { ...data, train: [{ ...queries[0]!, query: 'r' }] }),
    configHash(configOf(), { ...data, validation: [...queries, { ...queries[0]!, id: 'q2' }] }),
  ];
  expect(new Set([hash, ...others]).size).toBe(others.length + 1);
});

test('held-out questions that are training questions too are named, whatever their ids and white space', () => {
  const ask = (id: string, query: string) => ({ id, query, gold: ['a1'] });
  const train = [ask('t1', 'x'), ask('t2', 'y'), ask('t3', 'z')];
  expect(dataWarnings({ train, validation: [ask('t1', 'another')] })).toEqual([]);
  const validation = [ask('v1', 'w'), ask('v2', ' y'), ask('v3', 'x')];
  expect(dataWarnings({ train, validation })).toEqual([
    expect.stringMatching(/^2 of 3 held-out questions are training questions too \("v2" is "t2"\)/),
  ]);
});
