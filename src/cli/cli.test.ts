import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { RolloutFailure } from '../rollout/rollout-failure.ts';
import { reportError } from './main.ts';
import { readTarget } from './target.ts';
import { lexpo } from './test-support.ts';

let folder = '';
let config = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-cli-'));
  const file = (name: string, ...lines: object[]): string => {
    writeFileSync(join(folder, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    return join(folder, name);
  };
  const corpus = file(
    'corpus.jsonl',
    { id: 'a1', title: '民法典 第一条', text: '租赁合同的押金应当退还。' },
    { id: 'a2', title: '民法典 第二条', text: '出租人应当维修房屋。' },
  );
  const train = file('train.jsonl', { id: 't1', query: '押金不退怎么办', gold: ['a1'] });
  const validation = file('validation.jsonl', { id: 'v1', query: '房子漏水谁修', gold: ['a2'] });
  config = join(folder, 'run.yaml');
  const yaml = {
    run: { name: 'demo', dir: join(folder, 'runs') },
    model: { path: join(folder, 'model'), build: { size: 'tiny', tokens: 1000 } },
    data: { corpus, train, validation },
    optimizer: { warmupSteps: 0 },
    train: { steps: 3 },
  };
  // JSON is YAML.
  writeFileSync(config, JSON.stringify(yaml));
});

describe('the command line', () => {
  test('help and version go to stdout with code 0', async () => {
    const help = await lexpo('--help');
    expect(help).toMatchObject({ code: 0, err: '' });
    for (const command of ['train', 'eval', 'rollout', 'serve', 'doctor', 'build-model'])
      expect(help.out).toContain(command);
    expect((await lexpo('train', '--help')).out).toContain('--set <path=value>');
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect((await lexpo('--version')).out.trim()).toBe(version);
  });

  test('unknown commands and options, missing arguments and wrong numbers: code 1, said on stderr', async () => {
    for (const [args, text] of [
      [['trian', config], "unknown command 'trian'"],
      [['train', config, '--frsh'], "unknown option '--frsh'"],
      [['train'], 'missing required argument'],
      [['train', config, '--seed', '1.5'], 'whole number'],
      [['train', config, '--seed', '-3'], 'whole number'],
      [['serve', folder, '--port', '65536'], 'at most 65535'],
      [['rollout', config, '--members', '100000'], 'at most 1024'],
      [['serve', folder, '--port', 'http'], 'whole number'],
      [['rollout', config, '--query', 'x', '--members', '0'], 'at least 1'],
    ] satisfies [string[], string][]) {
      const { code, out, err } = await lexpo(...args);
      expect(code, text).toBe(1);
      expect(out).toBe('');
      expect(err).toContain(text);
    }
  });

  test("a user's mistake is one block without a stack, a fault of ours has its stack and code 70", () => {
    let text = '';
    const stderr = {
      write: (part: string) => {
        text += part;
        return true;
      },
    };
    expect(reportError(new UserError('no such file', 'x.yaml', 'check it'), stderr)).toBe(1);
    expect(text).toBe('lexpo: x.yaml: no such file\n  → check it\n');
    text = '';
    expect(reportError(new TypeError('x is not a function'), stderr)).toBe(70);
    expect(text).toContain('TypeError: x is not a function\n    at ');
    text = '';
    expect(reportError(Object.assign(new Error('x'), { code: 'ENOSPC', path: 'runs/a' }), stderr)).toBe(1);
    expect(text).toBe('lexpo: runs/a: the disk is full\n  → free some space; nothing was half-written\n');
    text = '';
    const refused = { code: 'ENOTDIR', syscall: 'open', path: 'runs/a' };
    expect(reportError(Object.assign(new Error('ENOTDIR: not a directory'), refused), stderr)).toBe(1);
    expect(text).toMatch(/^lexpo: runs\/a: ENOTDIR: not a directory\n {2}→ check the path/);
    text = '';
    expect(reportError(new RolloutFailure('deadline', 'no answer for 30 ms'), stderr)).toBe(1);
    expect(text).toMatch(/^lexpo: policy endpoint: no answer for 30 ms\n {2}→ raise rollout.deadlineMs/);
    text = '';
    expect(reportError('a string', stderr)).toBe(70);
    expect(text).toContain('a string');
  });
});

describe('train', () => {
  test('--dry-run prints configuration and plan, and writes nothing', async () => {
    const { code, out, err } = await lexpo(
      'train',
      config,
      '--dry-run',
      '--set',
      'rollout.queriesPerStep=1',
      '--seed',
      '5',
    );
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/^run:\n {2}name: demo\n/);
    expect(out).toContain('seed: 5');
    expect(out).toContain('queriesPerStep: 1');
    expect(out).toContain('data            2 articles, 1 training, 1 held-out questions');
    expect(out).toContain('rollouts        24, 3.00 passes');
    expect(out).toContain('sampled tokens  at most 7.68 k');
    expect(out).toContain('evaluations     at steps 0, 3: 2 episodes');
    expect(out).toContain('learner         onnx: 2 threads');
    expect(out).toMatch(/memory {10}known when .* is made/);
    const nodes = 'learner.nodes={count: 2, address: gpu-0}';
    const torch = await lexpo('train', config, '--dry-run', '--set', 'learner.kind=torch', '--set', nodes);
    expect(torch.out).toMatch(
      /\nlearner {9}torch: 1 process on each of 2 machines, auto, float32\n {16}on machine 1: python3 -m torch/,
    );
    const again = join(folder, 'again.yaml');
    writeFileSync(again, out.slice(0, out.indexOf('\ndata  ')));
    expect((await lexpo('train', again, '--dry-run')).out).toBe(out);
    expect(existsSync(join(folder, 'runs'))).toBe(false);
  });

  test('mistakes of the configuration and of the data end with code 1', async () => {
    const wrong = await lexpo(
      'train',
      config,
      '--set',
      'train.stepz=1',
      '--set',
      'rollout.groupSize=0',
      '--dry-run',
    );
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain('2 mistakes');
    const missing = await lexpo('train', config, '--set', 'data.train=none.jsonl', '--dry-run');
    expect(missing).toMatchObject({ code: 1, out: '' });
    expect(missing.err).toContain('none.jsonl');
    const model = join(folder, 'no-tokenizer');
    cpSync('test/vectors/qwen3-tiny', model, { recursive: true });
    const untold = await lexpo('train', config, '--set', `model.path=${model}`, '--dry-run');
    expect(untold).toMatchObject({ code: 1, out: '' });
    expect(untold.err).toContain('tokenizer.json is missing');
    expect((await lexpo('train', 'none.yaml')).err).toContain('none.yaml: no such file');
  });

  test('an earlier run is not touched unasked', async () => {
    mkdirSync(join(folder, 'runs', 'demo'), { recursive: true });
    writeFileSync(join(folder, 'runs', 'demo', 'notes.txt'), 'mine');
    const plain = await lexpo('train', config);
    expect(plain.code).toBe(1);
    expect(plain.err).toContain('--resume');
    expect(plain.err).toContain('--fresh');
    expect((await lexpo('train', config, '--fresh')).err).toContain('removes nothing');
    expect((await lexpo('train', config, '--fresh', '--resume')).err).toContain('exclude each other');
    expect(readFileSync(join(folder, 'runs', 'demo', 'notes.txt'), 'utf8')).toBe('mine');
  });

  test('--fresh loses nothing when something that the run needs proves wrong', async () => {
    const run = join(folder, 'runs', 'demo');
    mkdirSync(join(run, 'adapters', 'demo-v3'), { recursive: true });
    const earlier = { run: {}, model: {}, data: {}, rollout: {}, train: {} };
    writeFileSync(join(run, 'config.json'), JSON.stringify(earlier));
    const model = join(folder, 'model');
    mkdirSync(model);
    for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json'])
      writeFileSync(join(model, name), '{}');
    for (const wrong of ['data.train=none.jsonl', 'model.path=none', `model.path=${model}`]) {
      const { code, err } = await lexpo(
        'train',
        config,
        '--fresh',
        '--set',
        'model.build=null',
        '--set',
        wrong,
      );
      expect(code).toBe(1);
      expect(err).toMatch(wrong.startsWith('data') ? /none.jsonl/ : /no such folder|config.json/);
      expect(readdirSync(run).sort()).toEqual(['adapters', 'config.json']);
    }
  });

  test('servers that do not answer leave no run, and take none away', async () => {
    const runs = join(folder, 'down');
    const away = '{kind: vllm, replicas: [{url: "http://127.0.0.1:1"}], logprobs: processed}';
    const sets = [`run.dir=${runs}`, 'run.name=down', `endpoint=${away}`, 'learner.threads=1'];
    const args = ['configs/quickstart.yaml', ...sets.flatMap((set) => ['--set', set])];
    for (const flags of [[], ['--resume'], []]) {
      const { code, err } = await lexpo('train', ...args, ...flags);
      expect(code).toBe(1);
      expect(err).toContain('does not answer');
      expect(existsSync(join(runs, 'down'))).toBe(false);
    }
    mkdirSync(join(runs, 'down', 'adapters', 'down-v3'), { recursive: true });
    const earlier = { run: {}, model: {}, data: {}, rollout: {}, train: {} };
    writeFileSync(join(runs, 'down', 'config.json'), JSON.stringify(earlier));
    expect((await lexpo('train', ...args, '--fresh')).err).toContain('does not answer');
    expect(readdirSync(join(runs, 'down', 'adapters'))).toEqual(['down-v3']);
  });
});

describe('eval and rollout', () => {
  test('rollout wants exactly one question', async () => {
    for (const args of [[], ['--query', 'x', '--query-id', 't1'], ['--query-id', 't1', '--gold', 'a1']]) {
      const { code, err } = await lexpo('rollout', config, ...args);
      expect(code).toBe(1);
      expect(err).toContain('--query');
    }
  });

  test('a run means its chosen adapter, an unfinished one its newest, a configuration the base model', async () => {
    const root = join(folder, 'runs', 'demo');
    for (const name of ['demo-v2', 'demo-v10', 'demo-v10-r2', 'demo-v9', '.demo-v11.tmp-1-0'])
      mkdirSync(join(root, 'adapters', name), { recursive: true });
    writeFileSync(join(root, 'config.json'), readFileSync(config));
    expect((await readTarget(config, {})).adapter).toBeNull();
    expect((await readTarget(root, {})).adapter).toBe(join(root, 'adapters', 'demo-v10-r2'));
    const { steps } = (await readTarget(root, {})).config.train;
    const summary = (ended: number) =>
      JSON.stringify({ adapter: '/elsewhere/runs/demo/adapters/demo-v2', steps: ended });
    // That of an end which was moved since.
    writeFileSync(join(root, 'summary.json'), summary(steps - 1));
    expect((await readTarget(root, {})).adapter).toBe(join(root, 'adapters', 'demo-v10-r2'));
    writeFileSync(join(root, 'summary.json'), summary(steps));
    const target = await readTarget(root, { set: ['eval.k=5'] });
    expect(target.adapter).toBe(join(root, 'adapters', 'demo-v2'));
    expect(target.config.eval.k).toBe(5);
    expect((await readTarget(root, { adapter: 'other' })).adapter).toBe('other');
    await expect(readTarget(folder, {})).rejects.toThrow(/is a folder/);
    // The base model's figures would pass for the run's.
    rmSync(join(root, 'summary.json'));
    rmSync(join(root, 'adapters'), { recursive: true });
    await expect(readTarget(root, {})).rejects.toThrow(/demo: has no adapter yet/);
  });
});

test('serve refuses a key variable that is not set', async () => {
  const { code, err } = await lexpo('serve', folder, '--api-key-env', 'LEXPO_NO_SUCH_KEY');
  expect(code).toBe(1);
  expect(err).toContain('environment variable LEXPO_NO_SUCH_KEY: is not set');
});

test('serve makes the folder of adapters that it has by default, and none that was named', async () => {
  const here = process.cwd();
  const empty = mkdtempSync(join(tmpdir(), 'lexpo-serve-'));
  process.chdir(empty);
  try {
    const named = await lexpo('serve', 'none', '--port', '0', '--adapters', 'other');
    expect(named).toMatchObject({ code: 1 });
    expect(existsSync('other')).toBe(false);
    const { code, err } = await lexpo('serve', 'none', '--port', '0');
    expect(code).toBe(1);
    expect(err).not.toContain('runs');
    expect(existsSync('runs')).toBe(true);
  } finally {
    process.chdir(here);
    rmSync(empty, { recursive: true });
  }
});

test('build-model says what is missing', async () => {
  const { code, err } = await lexpo('build-model', config, '--set', 'model.build=null');
  expect(code).toBe(1);
  expect(err).toContain('model.build');
});
