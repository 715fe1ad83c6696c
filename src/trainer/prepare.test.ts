import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Config, configSchema } from '../config/schema.ts';
import { corpusOf } from '../env/corpus.ts';
import {
  checkCritic,
  configHash,
  type Data,
  dataWarnings,
  greedySampling,
  loadModel,
  trainSampling,
} from './prepare.ts';

const configOf = (change: object = {}): Config =>
  configSchema.parse({
    run: { name: 'x' },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 3 },
    ...change,
  });
test('training samples as configured; a greedy reading cuts nothing off', () => {
  const narrow = { temperature: 0.6, topP: 0.9, topK: 20 };
  const config = configOf({ rollout: narrow, loss: { importance: { level: 'token' } } });
  expect(trainSampling(config)).toMatchObject(narrow);
  expect(greedySampling(config).temperature).toBe(0);
  expect(greedySampling(config)).not.toHaveProperty('topP');
  expect(greedySampling(config)).not.toHaveProperty('topK');
});

const articles = [{ id: 'a1', title: 't', text: 'x' }];
const queries = [{ id: 'q1', query: 'q', gold: ['a1'] }];
const data: Data = { corpus: corpusOf(articles), train: queries, validation: queries };

test('the hash of a run: more steps are the same run, other settings or data are not', () => {
  const hash = configHash(configOf(), data, 'w');
  const same = [
    configOf({ train: { steps: 9 } }),
    configOf({ train: { steps: 3, keep: 5 } }),
    configOf({ run: { name: 'x', dir: 'y' } }),
  ];
  expect(same.map((config) => configHash(config, { ...data }, 'w'))).toEqual(same.map(() => hash));
  const others = [
    configHash(configOf({ run: { name: 'x', seed: 2 } }), data, 'w'),
    configHash(configOf({ train: { steps: 3, evalEvery: 1 } }), data, 'w'),
    configHash(configOf({ reward: { hit: 0.3 } }), data, 'w'),
    configHash(configOf(), data, 'v'),
    configHash(configOf(), { ...data, corpus: corpusOf([{ ...articles[0]!, text: 'y' }]) }, 'w'),
    configHash(configOf(), { ...data, train: [{ ...queries[0]!, query: 'r' }] }, 'w'),
    configHash(configOf(), { ...data, validation: [...queries, { ...queries[0]!, id: 'q2' }] }, 'w'),
  ];
  expect(new Set([hash, ...others]).size).toBe(others.length + 1);
});

test('held-out questions that are training questions too are named, whatever their ids and white space', () => {
  const ask = (id: string, query: string) => ({ id, query, gold: ['a1'] });
  const train = [ask('t1', 'x'), ask('t2', 'y'), ask('t3', 'z')];
  expect(dataWarnings({ train, validation: [ask('t1', 'another')] })).toEqual([]);
  const validation = [ask('v1', 'w'), ask('v2', ' y\u3000'), ask('v3', 'x')];
  expect(dataWarnings({ train, validation })).toEqual([
    expect.stringMatching(/^2 of 3 held-out questions are training questions too \("v2" is "t2"\)/),
  ]);
});

test('questions that only a model can score are refused where none is named, before anything runs', () => {
  const text = { id: 'q2', query: 'q', gold: ['a1'], answer: { kind: 'text' as const, text: 'x' } };
  const files = { 'train.jsonl': queries, 'held-out.jsonl': [text, { ...text, id: 'q3' }] };
  const critic = { url: 'http://critic', model: 'm' } as Config['assistants']['critic'];
  expect(() => checkCritic({ kind: 'lawyer' }, {}, files)).toThrow(
    /held-out.jsonl: "q2" expects an answer of the kind text.*; and 1 more.*assistants.critic/s,
  );
  const unlabelled = { id: 'q4', query: 'q', gold: [], answer: { kind: 'choice' as const, choices: ['A'] } };
  expect(() => checkCritic({ kind: 'lawyer' }, {}, { 'train.jsonl': [unlabelled] })).toThrow(
    /train.jsonl: "q4" has no gold.*assistants.critic/s,
  );
  expect(() => checkCritic({ kind: 'lawyer' }, { critic }, files)).not.toThrow();
  expect(() => checkCritic({ kind: 'malr' }, {}, files)).not.toThrow();
  expect(() => checkCritic({ kind: 'lawyer' }, {}, { 'train.jsonl': queries })).not.toThrow();
});

test("a tokenizer that cannot be the model's is refused", () => {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-prepare-'));
  cpSync('test/vectors/char-tokenizer', folder, { recursive: true });
  const shape = JSON.parse(readFileSync('test/vectors/qwen3-tiny/config.json', 'utf8'));
  const load = (change: object) => {
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...shape, ...change }));
    return loadModel(folder);
  };
  // 392 ids, of which 384 is <|im_end|>. An embedding may have rows to spare.
  expect(load({ vocab_size: 392, eos_token_id: 384 }).endId).toBe(384);
  expect(load({ vocab_size: 512, eos_token_id: [384, 382] }).endId).toBe(384);
  expect(() => load({ vocab_size: 391, eos_token_id: 384 })).toThrow(/ids up to 391.*vocab_size of 391/);
  expect(() => load({ vocab_size: 512, eos_token_id: 500 })).toThrow(/eos_token_id 500 is no token of it/);
  expect(() => load({ vocab_size: 512, eos_token_id: [384, 388] })).toThrow(
    /tokenizer.json: eos_token_id 388 is the text '{"action":"', no control token\n.*of the same model/,
  );
  rmSync(folder, { recursive: true });
});
