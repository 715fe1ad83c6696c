/** `lexpo doctor`, a test for each thing that may be wrong with the machine, the configuration, data and model. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { doctor } from './doctor.ts';
import { captureStreams } from './test-support.ts';
import { ABSENT, examine, file, machine, ownModel } from './test-support-doctor.ts';

test('all is well: every check passes, and nothing is left behind', async () => {
  const before = readdirSync(file('')).length;
  const { code, statuses, text } = await examine();
  expect(code).toBe(0);
  expect(new Set(Object.values(statuses))).toEqual(new Set(['ok']));
  expect(Object.keys(statuses)).toEqual([
    ...['node', 'config', 'corpus', 'training questions', 'held-out questions', 'overlap'],
    ...['model', 'weights', 'memory', 'disk', 'learner', 'endpoint', 'adapter round trip'],
  ]);
  expect(text('adapter round trip')).toMatch(
    /kB written, read back equal, loaded and proved on the endpoint/,
  );
  // run.yaml is new
  expect(readdirSync(file('')).length).toBe(before + 1);
});

test('lines for people: one a check, with what to do', async () => {
  const { streams, said } = captureStreams();
  const code = await doctor(file('none.yaml'), { set: [] }, streams, machine);
  expect(code).toBe(1);
  const lines = said.out.trimEnd().split('\n');
  expect(lines).toHaveLength(13);
  expect(lines[1]).toMatch(/^fail {2}config {14}.*none\.yaml: no such file → give the path of a YAML file/);
  expect(lines[2]).toBe('skip  corpus              needs config');
});

describe('the machine and the configuration', () => {
  test('an old Node', async () => {
    const { statuses, text } = await examine(ABSENT, [], { nodeVersion: '18.19.1' });
    expect(statuses).toMatchObject({ node: 'fail', config: 'ok', corpus: 'ok' });
    expect(text('node')).toMatch(/18\.19\.1 is too old → install Node 20/);
  });

  test('every mistake of the configuration; what needs it is skipped', async () => {
    const { statuses, text } = await examine({}, ['train.steps=-1', 'lora.rank=3', 'rollout.topP=0.9']);
    const { node, config, ...others } = statuses;
    expect([node, config]).toEqual(['ok', 'fail']);
    expect(new Set(Object.values(others))).toEqual(new Set(['skip']));
    expect(text('config')).toMatch(/3 mistakes.*\n.*lora\.rank.*\n.*train\.steps.*\n.*importance\.level/);
  });

  test('what is allowed and probably not meant is a warning, which fails nothing', async () => {
    const { statuses, text } = await examine(ABSENT, ['optimizer.learningRate=1e-7']);
    expect(statuses.config).toBe('warn');
    expect(text('config')).toMatch(/next to nothing/);
  });
});

describe('data', () => {
  test('no corpus: the questions, which need it, are skipped; the rest goes on', async () => {
    const { statuses, text } = await examine({ ...ABSENT, data: { corpus: file('none.jsonl') } });
    expect(statuses).toMatchObject({
      corpus: 'fail',
      'training questions': 'skip',
      overlap: 'skip',
      model: 'fail',
      disk: 'ok',
      learner: 'ok',
    });
    expect(text('corpus')).toMatch(/none\.jsonl/);
  });

  test('a question whose gold article is not there, with its line', async () => {
    writeFileSync(file('validation.jsonl'), '{"id":"v1","query":"x","gold":["a9"]}\n');
    const { statuses, text } = await examine(ABSENT);
    expect(statuses).toMatchObject({
      'training questions': 'ok',
      'held-out questions': 'fail',
      overlap: 'skip',
    });
    expect(text('held-out questions')).toMatch(/validation\.jsonl:1.*a9/);
  });

  test('a held-out question that is trained on is a warning', async () => {
    writeFileSync(file('validation.jsonl'), '{"id":"v1","query":"押金不退怎么办","gold":["a1"]}\n');
    const { statuses, text } = await examine(ABSENT);
    expect(statuses.overlap).toBe('warn');
    expect(text('overlap')).toMatch(/1 of 1 held-out questions are training questions too/);
  });
});

describe('the model', () => {
  test('that is absent, and one that the run will make', async () => {
    const absent = await examine(ABSENT);
    expect(absent.statuses).toMatchObject({
      model: 'fail',
      weights: 'skip',
      memory: 'skip',
      disk: 'ok',
      endpoint: 'skip',
    });
    const build = { path: 'none/such', build: { size: 'tiny', tokens: 1000 } };
    const coming = await examine({ model: build });
    expect(coming.code).toBe(0);
    expect(coming.statuses).toMatchObject({ model: 'warn', weights: 'skip', endpoint: 'skip', disk: 'ok' });
    expect(coming.text('model')).toMatch(/not there yet → .*build-model/);
  });

  test('whose tokenizer, template or keyword arguments are not right', async () => {
    const path = ownModel();
    const typo = await examine({ model: { path, chatTemplate: { enable_thinkin: false } } });
    expect(typo.text('model')).toMatch(/never reads enable_thinkin → .*model\.chatTemplate/);
    const config = JSON.parse(readFileSync(join(path, 'config.json'), 'utf8'));
    writeFileSync(join(path, 'config.json'), JSON.stringify({ ...config, vocab_size: 1600 }));
    const small = await examine({ model: { path } });
    expect(small.text('model')).toMatch(/vocab_size of 1600/);
    expect(small.statuses.weights).toBe('skip');
    rmSync(join(path, 'tokenizer.json'));
    expect((await examine({ model: { path } })).text('model')).toMatch(/tokenizer\.json/);
  });

  test('that has fewer positions than a call may take', async () => {
    const { statuses, text } = await examine({ learner: { kind: 'tfjs', maxTreeTokens: 1024 } }, [], {
      freeDisk: async () => 0,
    });
    expect(statuses.model).toBe('warn');
    expect(text('model')).toMatch(/maxTreeTokens 1024 is more than its 512 positions/);
  });

  test('and an adapter to start from that is absent', async () => {
    const { statuses, text } = await examine({ lora: { start: file('none') } }, [], {
      freeDisk: async () => 0,
    });
    expect(statuses).toMatchObject({ 'start adapter': 'fail', memory: 'ok', endpoint: 'skip' });
    expect(text('start adapter')).toContain(file('none'));
  });

  test('whose weights are cut short, of other shapes, or not all there', async () => {
    const path = ownModel();
    const config = JSON.parse(readFileSync(join(path, 'config.json'), 'utf8'));
    const withConfig = async (change: object) => {
      writeFileSync(join(path, 'config.json'), JSON.stringify({ ...config, ...change }));
      const found = await examine({ model: { path } });
      expect(found.statuses).toMatchObject({ model: 'ok', weights: 'fail', endpoint: 'skip' });
      return found.text('weights');
    };
    expect(await withConfig({ intermediate_size: config.intermediate_size + 8 })).toMatch(/has shape/);
    const layers = config.num_hidden_layers + 1;
    expect(await withConfig({ num_hidden_layers: layers, layer_types: undefined })).toMatch(/has no tensor/);
    truncateSync(join(path, 'model.safetensors'), 100_000);
    expect(await withConfig({})).toMatch(/model\.safetensors/);
    rmSync(join(path, 'model.safetensors'));
    expect(await withConfig({})).toMatch(/neither model\.safetensors nor/);
  });
});

describe('memory and disk', () => {
  test('memory that is short is a warning, too little for the weights a failure', async () => {
    const none = await examine({}, [], { freeMemory: () => 1e8 });
    expect(none.statuses).toMatchObject({ memory: 'fail', endpoint: 'skip', 'adapter round trip': 'skip' });
    expect(none.text('memory')).toMatch(/alone need about .*100 MB are free →/);
    const short = await examine({ learner: { kind: 'torch', python: 'none' } }, [], {
      freeMemory: () => 3e8,
    });
    expect(short.statuses.memory).toBe('warn');
    expect(short.text('memory')).toMatch(/gradientCheckpointing/);
  });

  test('a disk without room, or that cannot be written', async () => {
    const full = await examine({ learner: { kind: 'tfjs' } }, [], { freeDisk: async () => 1000 });
    expect(full.statuses).toMatchObject({ disk: 'fail', endpoint: 'skip' });
    expect(full.text('disk')).toMatch(/need about .*kB, and 1 kB are free → .*run\.dir/);
    writeFileSync(file('a-file'), '');
    const blocked = await examine({ ...ABSENT, run: { name: 'demo', dir: file('a-file/runs') } });
    expect(blocked.statuses.disk).toBe('fail');
    expect(existsSync(file('runs'))).toBe(false);
  });

  test('a run that is there already is a warning, and stays as it is', async () => {
    mkdirSync(file('runs/demo'), { recursive: true });
    writeFileSync(file('runs/demo/config.json'), '{}');
    const { statuses, text } = await examine(ABSENT);
    expect(statuses.disk).toBe('warn');
    expect(text('disk')).toMatch(/earlier run: train wants --resume or --fresh/);
    expect(readdirSync(file('runs/demo'))).toEqual(['config.json']);
  });
});
