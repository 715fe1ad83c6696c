import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { loadConfig, type Overrides, parseConfig } from './load.ts';

const GOOD = `run:
  name: demo
model:
  path: models/tiny
data:
  corpus: c.jsonl
  train: t.jsonl
  validation: v.jsonl
train:
  steps: 12
`;

function failure(text: string, overrides: Overrides = {}): string {
  try {
    parseConfig(text, 'x.yaml', overrides);
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as Error).message;
  }
  throw new Error('was accepted');
}

describe('a good configuration', () => {
  test('is filled with defaults', () => {
    const config = parseConfig(GOOD, 'x.yaml');
    expect(config.run).toEqual({ name: 'demo', dir: 'runs', seed: 1 });
    expect(config.rollout.groupSize).toBe(8);
    expect(config.retrieval.anchor).toEqual({ original: 1, rewrite: 0.5 });
    expect(config.reward).toMatchObject({ kind: 'malr', recallAt: null });
    expect(config.sft).toBeUndefined();
    expect(config.lora.targets).toHaveLength(7);
  });

  test('may be given again in full: the resolved form resolves to itself', () => {
    const config = parseConfig(GOOD, 'x.yaml', {
      set: ['sft.epochs=1.5', 'model.build={size: tiny, tokens: 9}'],
    });
    expect(parseConfig(JSON.stringify(config), 'config.json')).toEqual(config);
  });
});

describe('--set and --seed', () => {
  test('values are YAML; later ones win; sections appear when needed', () => {
    const config = parseConfig(GOOD, 'x.yaml', {
      set: [
        'train.steps=3',
        'train.steps=4',
        'env.prompts=en',
        'lora.targets=[q_proj, v_proj]',
        'sft.share=0.5',
        'reward.recallAt=5',
        'retrieval.anchor={original: 0, rewrite: 1}',
      ],
      seed: 7,
    });
    expect(config.train.steps).toBe(4);
    expect(config.env.prompts).toBe('en');
    expect(config.lora.targets).toEqual(['q_proj', 'v_proj']);
    expect(config.sft?.share).toBe(0.5);
    expect(config.reward).toMatchObject({ recallAt: 5 });
    expect(config.retrieval.anchor).toEqual({ original: 0, rewrite: 1 });
    expect(config.run.seed).toBe(7);
  });

  test('null takes an optional key away, and stays null where null is a value', () => {
    const text = `${GOOD}sft:\n  share: 0.4\nreward:\n  recallAt: 3\n  step: -1\n`;
    const config = parseConfig(text, 'x.yaml', {
      set: ['sft=null', 'reward.recallAt=null', 'reward.step=null'],
    });
    expect(config.sft).toBeUndefined();
    expect(config.reward).toMatchObject({ recallAt: null, step: -0.05 });
  });

  test('unknown paths, wrong forms and wrong values are named with what was typed', () => {
    const message = failure(GOOD, {
      set: [
        'rollout.groupsize=8',
        '__proto__.x=1',
        'train.steps',
        '=3',
        'env.maxRounds=many',
        'lora.targets=[q',
      ],
      seed: 1.5,
    });
    expect(message).toContain('7 mistakes');
    expect(message).toContain('--set rollout.groupsize=8: unknown path; did you mean rollout.groupSize?');
    expect(message).toContain('--set __proto__.x=1: unknown path');
    expect(message).toContain('--set train.steps: must have the form path=value');
    expect(message).toContain('--set =3: must have the form path=value');
    expect(message).toContain('--set env.maxRounds=many: env.maxRounds: "many" is not allowed');
    expect(message).toContain('--set lora.targets=[q: the value is not valid YAML');
    expect(message).toContain('--seed 1.5: run.seed: 1.5 is not allowed; give a whole number, at least 0');
  });
});

describe('mistakes', () => {
  test('all at once, each with its line, what was given and what is allowed', () => {
    const message = failure(`run:
  name: My Run
model:
  path: ''
data: {corpus: c, train: t, validation: v}
rollout:
  temperature: 0
  groupSze: 8
  maxTokens:
    planner: 1.5
env:
  prompts: fr
retrieval: 3
optimizer:
  betas: [0.9, 1]
lora:
  targets: []
eval:
  baselines: yes please
`);
    expect(message.split('\n')[0]).toBe('x.yaml: 11 mistakes in the configuration');
    expect(message).toContain('line 2: run.name: "My Run" is not allowed; give text (lower-case letters');
    expect(message).toContain('line 4: model.path: "" is not allowed; give text, not empty');
    expect(message).toContain('line 7: rollout.temperature: 0 is not allowed; give a number, above 0');
    expect(message).toContain('line 8: rollout.groupSze: unknown key; did you mean groupSize?');
    expect(message).toContain(
      'line 10: rollout.maxTokens.planner: 1.5 is not allowed; give a whole number, at least 1',
    );
    expect(message).toContain('line 12: env.prompts: "fr" is not allowed; give one of zh, en, zh-compact');
    expect(message).toContain('line 13: retrieval: 3 is not allowed; give a section with the keys kind, k1');
    expect(message).toContain(
      'line 15: optimizer.betas.1: 1 is not allowed; give a number, at least 0, below 1',
    );
    expect(message).toContain(
      'line 17: lora.targets: [] is not allowed; give a list, at least 1 of them, each one of q_proj',
    );
    expect(message).toContain('line 19: eval.baselines: "yes please" is not allowed; give true or false');
    expect(message).toContain('train: missing; give a section with the keys steps');
  });

  test('a wrong type is told from a wrong value', () => {
    expect(failure(GOOD.replace('12', '"12"'))).toContain(
      'line 10: train.steps: "12" is not allowed; give a whole number',
    );
    expect(failure(GOOD.replace('12', '.nan'))).toContain('train.steps: NaN is not allowed');
    expect(failure(`${GOOD}loss: {kl: null}`)).toContain('loss.kl: null is not allowed');
    expect(failure(`${GOOD}eval: {queries: none}`)).toContain('give a whole number, at least 1 or null');
  });

  test('a group of one is refused with the reason', () => {
    const message = failure(`${GOOD}rollout: {groupSize: 1, minGroup: 2}`);
    expect(message).toContain(
      'rollout.groupSize: 1 is not allowed; give a whole number, at least 2, at most 1024 (a group needs',
    );
    expect(message).toContain('1 mistake in');
  });

  test('numbers that no sum, timer or memory could bear are refused', () => {
    const set = [
      'reward.recall=1e308',
      'reward.invalid=-1e308',
      'retrieval.anchor.original=1e300',
      'rollout.deadlineMs=9999999999',
      'rollout.queriesPerStep=1000000000000',
      'sft.epochs=1e9',
      'eval.bootstrap=1000000000000',
    ];
    expect(() => parseConfig(GOOD, 'x.yaml', { set })).toThrow(/^x.yaml: 7 mistakes/);
  });

  test('an unknown key that resembles nothing lists the known ones', () => {
    expect(failure(`${GOOD}learner: {gpus: 1, kind: onnx}`)).toContain(
      'learner.gpus: unknown key; known here: kind, tokensPerPass',
    );
    expect(failure(`${GOOD}wandb: {}`)).toContain('wandb: unknown key; known here: run, model, data');
  });
});

describe('keyword arguments of the chat template', () => {
  const set = (value: string) => parseConfig(GOOD, 'x.yaml', { set: [`model.chatTemplate${value}`] });
  test('are keys of any name with plain values', () => {
    expect(parseConfig(GOOD, 'x.yaml').model.chatTemplate).toEqual({});
    expect(set('={enable_thinking: false, effort: low, depth: 2}').model.chatTemplate).toEqual({
      enable_thinking: false,
      effort: 'low',
      depth: 2,
    });
    expect(set('.enable_thinking=false').model.chatTemplate).toEqual({ enable_thinking: false });
  });
  test('anything else is refused with what is allowed', () => {
    const failed = (value: string) => failure(GOOD, { set: [`model.chatTemplate${value}`] });
    expect(failed('.tools=[1]')).toMatch(
      /chatTemplate.tools: \[1\] is not allowed; give true or false or a number/,
    );
    expect(failed('=true')).toMatch(
      /chatTemplate: true is not allowed; give a section whose values are true or/,
    );
    expect(failed('.messages=x')).toMatch(/chatTemplate.messages: must be left out/);
  });
});

describe('the learner, whose kind decides its keys', () => {
  test('each kind has its own defaults; no kind is onnx', () => {
    const learner = (set: string[]) => parseConfig(GOOD, 'x.yaml', { set }).learner;
    const limits = { tokensPerPass: 8192, maxTreeTokens: 1024, threads: 2 };
    const memory = { recompute: false, rowChunks: 1 };
    expect(learner([])).toEqual({ kind: 'onnx', ...limits, memory });
    expect(learner(['learner.memory.rowChunks=4'])).toMatchObject({ memory: { ...memory, rowChunks: 4 } });
    expect(learner(['learner.kind=torch'])).not.toHaveProperty('memory');
    expect(learner(['learner.threads=3'])).toMatchObject({ kind: 'onnx', threads: 3 });
    expect(learner(['learner.kind=tfjs'])).toMatchObject({ kind: 'tfjs', threads: 2 });
    const torch = learner(['learner.kind=torch', 'learner.nodes={count: 2, address: gpu-0}']);
    expect(torch).toMatchObject({ python: 'python3', processes: 1, device: 'auto', dtype: 'float32' });
    expect(torch).toMatchObject({ nodes: { count: 2, address: 'gpu-0', port: 29_500 } });
    expect(learner(['learner.kind=torch', 'learner.nodes.count=2', 'learner.nodes=null'])).not.toHaveProperty(
      'nodes',
    );
  });

  test("another kind's key, an unknown key and an unknown kind are told apart", () => {
    expect(failure(`${GOOD}learner:\n  processes: 2\n`)).toContain(
      'line 12: learner.processes: only with learner.kind torch',
    );
    expect(failure(`${GOOD}learner: {kind: torch, proceses: 2}`)).toContain('did you mean processes?');
    expect(failure(`${GOOD}learner: {kind: jax}`)).toContain(
      'learner.kind: "jax" is not allowed; give one of onnx, tfjs, torch',
    );
    expect(failure(`${GOOD}learner: 3`)).toContain('give a section with the keys kind, tokensPerPass');
    expect(failure(GOOD, { set: ['learner.dtype=f16', 'learner.kind=torch'] })).toContain(
      '--set learner.dtype=f16: learner.dtype: "f16" is not allowed; give one of float32, bfloat16',
    );
    expect(failure(GOOD, { set: ['learner.nodes.count=1', 'learner.kind=torch'] })).toMatch(/at least 2/);
  });

  test.each(['onnx', 'tfjs', 'torch'])('rules across fields see the defaults of %s', (kind) => {
    // Beside another mistake the schema gives no defaults, and the rules must fill them in themselves.
    const text = GOOD.replace('steps: 12', 'steps: -1');
    const message = failure(`${text}learner: {kind: ${kind}, tokensPerPass: 1000}`);
    expect(message).toContain('learner.tokensPerPass: must be at least learner.maxTreeTokens (1024)');
  });
});

test('an address with a password in it is refused without telling the password', () => {
  const pool = 'pool: {redis: {url: "redis://me:hunter2@10.0.0.1:6379"}}\n';
  const set = ['pool={redis: {url: "redis://:hunter2@10.0.0.1"}}'];
  for (const message of [failure(`${GOOD}${pool}`), failure(GOOD, { set })]) {
    expect(message).toMatch(/pool\.redis\.url: .*10\.0\.0\.1/);
    expect(message).not.toContain('hunter2');
  }
});

describe('the file itself', () => {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-config-'));

  test('is read from disk', () => {
    writeFileSync(join(folder, 'good.yaml'), GOOD);
    expect(loadConfig(join(folder, 'good.yaml')).train.steps).toBe(12);
  });

  test('missing, or a folder: one clear error', () => {
    expect(() => loadConfig(join(folder, 'none.yaml'))).toThrow(/none\.yaml: no such file\n {2}→/);
    expect(() => loadConfig(folder)).toThrow(/is a folder/);
  });

  test('broken YAML is named by line and column', () => {
    expect(failure('run:\n  name: [a\nmodel: 1\n')).toMatch(/^x\.yaml:\d+:\d+: not valid YAML: /);
    expect(failure(`${GOOD}train: {steps: 1}\n`)).toMatch(/^x\.yaml:11:1: not valid YAML: .*unique/);
    expect(failure('- a\n- b\n')).toContain('must hold keys and values');
    expect(failure('')).toContain('run: missing');
  });
});
