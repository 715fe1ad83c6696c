/** `lexpo doctor`, a test for each thing that may be wrong. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type PolicyServer, startServer } from '../serve/server.ts';
import type { Finding } from './doctor/checklist.ts';
import { doctor, type Machine } from './doctor.ts';
import type { Streams } from './main.ts';

const TINY = fileURLToPath(new URL('../../models/tiny', import.meta.url));
const GB = 2 ** 30;

let folder = '';
let servers: PolicyServer[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-doctor-'));
  const lines = (name: string, ...rows: object[]) =>
    writeFileSync(join(folder, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  lines('corpus.jsonl', { id: 'a1', title: '民法典 第一条', text: '押金应当退还。' });
  lines('train.jsonl', { id: 't1', query: '押金不退怎么办', gold: ['a1'] });
  lines('validation.jsonl', { id: 'v1', query: '房东不退钱', gold: ['a1'] });
});
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
  rmSync(folder, { recursive: true });
});

const file = (name: string) => join(folder, name);
const machine: Machine = {
  nodeVersion: '20.0.0',
  freeMemory: () => 64 * GB,
  freeDisk: async () => 64 * GB,
  now: () => 1_700_000_000_000,
};

/** Runs it on a good configuration with these changes, sections by name. */
async function examine(change: Record<string, object> = {}, set: string[] = [], here: Partial<Machine> = {}) {
  const section = (name: string, values: object) => ({ ...values, ...change[name] });
  const config = {
    ...change,
    run: section('run', { name: 'demo', dir: file('runs') }),
    model: section('model', { path: TINY }),
    data: section('data', {
      corpus: file('corpus.jsonl'),
      train: file('train.jsonl'),
      validation: file('validation.jsonl'),
    }),
    optimizer: section('optimizer', { warmupSteps: 0 }),
    rollout: section('rollout', { queriesPerStep: 1 }),
    lora: section('lora', { r: 4, targets: ['q_proj'] }),
    learner: section('learner', { maxTreeTokens: 256 }),
    train: section('train', { steps: 2 }),
  };
  writeFileSync(file('run.yaml'), JSON.stringify(config));
  return run(file('run.yaml'), set, here);
}

async function run(path: string, set: string[] = [], here: Partial<Machine> = {}) {
  let [out, err] = ['', ''];
  const streams = {
    stdout: { write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (err += text) },
  } as unknown as Streams;
  const code = await doctor(path, { set, json: true }, streams, { ...machine, ...here });
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Finding[] };
  expect(err).toBe('');
  expect(ok).toBe(code === 0);
  expect(code).toBe(checks.some(({ status }) => status === 'fail') ? 1 : 0);
  for (const { status, detail, hint } of checks) {
    expect(detail).not.toMatch(/\n\s+at /);
    if (status === 'fail' || status === 'warn') expect(hint?.length).toBeGreaterThan(5);
  }
  const statuses = Object.fromEntries(checks.map(({ name, status }) => [name, status]));
  const text = (name: string): string => {
    const { detail, hint } = checks.find((check) => check.name === name)!;
    return `${detail} → ${hint}`;
  };
  return { code, statuses, text };
}

/** A model folder of the test's own. */
function ownModel(): string {
  cpSync(TINY, file('model'), { recursive: true });
  return file('model');
}
const ABSENT = { model: { path: 'none/such' } };

test('all is well: every check passes, and nothing is left behind', async () => {
  const before = readdirSync(folder).length;
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
  expect(readdirSync(folder).length).toBe(before + 1);
});

test('lines for people: one a check, with what to do', async () => {
  let out = '';
  const streams = { stdout: { write: (text: string) => (out += text) }, stderr: { write: () => {} } };
  const code = await doctor(file('none.yaml'), { set: [] }, streams as unknown as Streams, machine);
  expect(code).toBe(1);
  const lines = out.trimEnd().split('\n');
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

describe('the learner', () => {
  /** A Python of the test's own. */
  const python = (...lines: string[]) => {
    writeFileSync(file('python'), `#!/bin/sh\n${lines.join('\n')}\n`);
    chmodSync(file('python'), 0o755);
    return file('python');
  };
  const torch = (path: string, more = {}) => ({
    ...ABSENT,
    learner: { kind: 'torch', python: path, ...more },
  });

  test('torch: a Python that is absent, lacks a package, or breaks', async () => {
    const absent = await examine(torch('no-such-python'));
    expect(absent.statuses).toMatchObject({ learner: 'fail', disk: 'ok' });
    expect(absent.text('learner')).toMatch(
      /no-such-python: cannot be started \(ENOENT\) → .*learner\.python/,
    );
    const bare = python(`echo "ModuleNotFoundError: No module named 'torch'" >&2`, 'exit 1');
    expect((await examine(torch(bare))).text('learner')).toMatch(/has no torch → pip install torch/);
    const broken = python('echo Traceback >&2', 'echo "OSError: libcudart.so.12" >&2', 'exit 1');
    expect((await examine(torch(broken))).text('learner')).toMatch(
      /does not import torch: OSError: libcudart/,
    );
  });

  test('torch: versions and GPUs, and too few of them', async () => {
    const one = python(`echo '["2.9.0", "4.57.0", 1]'`);
    const fine = await examine(torch(one));
    expect(fine.statuses.learner).toBe('ok');
    expect(fine.text('learner')).toMatch(/torch 2\.9\.0, transformers 4\.57\.0, 1 GPU/);
    const few = await examine(torch(one, { device: 'cuda', processes: 2 }));
    expect(few.text('learner')).toMatch(/2 GPUs are wanted and PyTorch sees 1 → .*nvidia-smi/);
  });

  test('tfjs where it is not installed, or finds no GPU', async () => {
    const { statuses, text } = await examine({ ...ABSENT, learner: { kind: 'tfjs' } });
    if (statuses.learner === 'fail') expect(text('learner')).toMatch(/tfjs-node-gpu.*learner\.kind onnx/);
    else expect(statuses.learner).toBe('ok');
  });
});

describe('servers elsewhere', () => {
  const vllm = (urls: string[], more = {}) => ({
    endpoint: { kind: 'vllm', replicas: urls.map((url) => ({ url })), proofTolerance: 0.002, ...more },
  });
  async function serve(modelFolder: string): Promise<PolicyServer> {
    const server = await startServer({ modelFolder, adapterRoot: folder, servedModelName: 'base' });
    servers.push(server);
    return server;
  }
  async function freePort(): Promise<number> {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
  const listed = async ({ url }: PolicyServer): Promise<string[]> => {
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };

  test('an adapter goes to each of them and is taken away again', async () => {
    const both = [await serve(TINY), await serve(TINY)];
    const { code, statuses, text } = await examine(vllm(both.map(({ url }) => url)));
    expect(text('adapter round trip')).toMatch(/loaded and proved on 2 replicas/);
    expect(statuses).toMatchObject({ endpoint: 'ok', 'adapter round trip': 'ok' });
    expect(code).toBe(0);
    expect(await Promise.all(both.map(listed))).toEqual([['base'], ['base']]);
    expect(existsSync(file('runs'))).toBe(false);
  });

  test('one that is not there is named, and nothing is loaded anywhere', async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    const { url } = await serve(TINY);
    const { statuses, text } = await examine(vllm([url, dead]), ['rollout.deadlineMs=2000']);
    expect(statuses).toMatchObject({ endpoint: 'fail', 'adapter round trip': 'skip' });
    expect(text('endpoint')).toContain(`${dead}: does not answer`);
    expect(await listed(servers[0]!)).toEqual(['base']);
  });

  test('a key whose variable is not set', async () => {
    const { text } = await examine(vllm(['http://127.0.0.1:9'], { apiKeyEnv: 'LEXPO_NO_SUCH_KEY' }));
    expect(text('endpoint')).toMatch(/variable LEXPO_NO_SUCH_KEY: is not set/);
  });

  test('another base model than the learner has passes the capability check and fails the proof', async () => {
    const path = ownModel();
    const bytes = readFileSync(join(path, 'model.safetensors'));
    // values of the last tensor of the file, in place
    for (let at = bytes.length - 4000; at < bytes.length; at += 4)
      bytes.writeFloatLE(bytes.readFloatLE(at) + 0.5, at);
    writeFileSync(join(path, 'model.safetensors'), bytes);
    const { url } = await serve(path);
    const { statuses, text } = await examine(vllm([url]));
    expect(statuses).toMatchObject({ endpoint: 'ok', 'adapter round trip': 'fail' });
    expect(text('adapter round trip')).toMatch(/differ from the learner's by/);
    expect(await listed(servers[0]!)).toEqual(['base']);
    expect(existsSync(file('runs'))).toBe(false);
  });
});
