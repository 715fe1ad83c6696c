import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { type Config, configSchema } from '../config/schema.ts';
import { readDecoderConfig } from '../engine/model-config.ts';
import { initAdapter, writeAdapter } from '../engine/peft.ts';
import { randomAdapter, tinyModel } from '../engine/test-support.ts';
import { corpusOf } from '../env/corpus.ts';
import { createEnvironment } from './environment.ts';
import type { Model } from './prepare.ts';
import { loraSpec, type StartParts, startRun, startState } from './start-run.ts';
import { BASE_MODEL, createTableLearner, freshState, tableAdapter, tableModel } from './test-support.ts';
import { createTableEndpoint, tableReplicas } from './test-support-rollout.ts';

const scratch = temporaryFolder();
const folder = tinyModel();
afterAll(() => rmSync(folder, { recursive: true }));

const configOf = (change: object): Config =>
  configSchema.parse({
    run: { name: 'run', seed: 3 },
    model: { path: BASE_MODEL },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 1 },
    ...change,
  });

describe('startState', () => {
  const decoder = readDecoderConfig(folder);
  const shape = { r: 2, alpha: 4, rslora: false, targets: ['q_proj', 'v_proj'] };

  it('is a fresh adapter of the seed, without a reference', () => {
    const config = configOf({ lora: shape });
    const { adapter, reference, optimizer } = startState(config, decoder);
    expect(reference).toBeNull();
    expect(adapter).toEqual(initAdapter(decoder, loraSpec(config), stream(3, 'adapter')));
    expect([...optimizer.first.keys()]).toEqual([...adapter.tensors.keys()]);
  });

  it('is the named adapter, which is also the reference; one of another shape is refused', async () => {
    const start = join(scratch, 'start');
    const named = randomAdapter(folder, shape);
    await writeAdapter(start, named, { baseModel: 'x' });
    const lora = { ...shape, targets: ['v_proj', 'q_proj'], start };
    const { adapter, reference } = startState(configOf({ lora }), decoder);
    expect(adapter.tensors).toEqual(named.tensors);
    expect(reference).toEqual(adapter);
    for (const change of [{ r: 4 }, { alpha: 8 }, { rslora: true }, { targets: ['q_proj'] }])
      expect(() => startState(configOf({ lora: { ...lora, ...change } }), decoder)).toThrow(
        /start: has r 2, alpha 4, rslora false on q_proj, v_proj\n.*lora\.r/,
      );
  });
});

describe('startRun', () => {
  const corpus = corpusOf([
    { id: 'a1', title: '民法典 第一条', law: '民法典', text: '租赁合同的押金应当退还。' },
    { id: 'a2', title: '民法典 第二条', law: '民法典', text: '出租人应当维修房屋。' },
  ]);
  const train = [
    { id: 't1', query: '押金不退怎么办', gold: ['a1'] },
    { id: 't2', query: '房子漏水谁修', gold: ['a2'] },
  ];
  const config = configOf({ sft: { share: 1, epochs: 1, tokensPerStep: 1 } });
  const table = tableModel(8);
  // Every prompt and every answer is one token: what is taught does not matter here.
  const model = {
    endId: 0,
    renderPrompt: () => [1],
    tokenizer: { encode: () => [2] },
  } as unknown as Model;

  function partsOf(name: string, print: (line: string) => void, onUpdate: (done: number) => void) {
    const endpoint = createTableEndpoint(table);
    const learner = createTableLearner(table, freshState(tableAdapter(table, 0)));
    const controller = new AbortController();
    const parts: StartParts = {
      config,
      data: { corpus, train, validation: train },
      model,
      environment: createEnvironment(config, { corpus }),
      learner,
      target: {
        replicas: tableReplicas(endpoint),
        adapterRoot: join(scratch, name),
        runName: 'run',
        baseModel: BASE_MODEL,
        probeIds: [1, 2, 3],
      },
      screen: { print, start: () => ({ update: onUpdate, end: () => {} }) },
      signal: controller.signal,
    };
    return { parts, endpoint, learner, controller };
  }

  it('teaches the demonstrations, and publishes the result as version 0', async () => {
    const lines: string[] = [];
    const { parts, endpoint, learner } = partsOf(
      'whole',
      (line) => lines.push(line),
      () => {},
    );
    const progress = await startRun(parts);
    expect(progress).toMatchObject({ step: 0, policy: { version: 0, model: 'run-v0' }, best: null });
    expect(endpoint.resident()).toEqual(['run-v0']);
    expect(learner.counts.update).toBeGreaterThan(4);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(`of 2 questions, ${learner.counts.update} updates`);
    const { adapter, reference } = await learner.state();
    expect(reference).toEqual(adapter);
    expect(adapter).not.toEqual(tableAdapter(table, 0));
  });

  it('leaves out calls that are longer than the learner takes, and says so; all of them is an error', async () => {
    const lines: string[] = [];
    const { parts } = partsOf(
      'long',
      (line) => lines.push(line),
      () => {},
    );
    const encode = (text: string): number[] => Array(text.includes('original') ? 1 : 50).fill(2);
    const longer = { ...model, tokenizer: { ...model.tokenizer, encode } } as unknown as Model;
    const learner = (maxTreeTokens: number) => ({ ...config.learner, maxTreeTokens });
    await startRun({ ...parts, model: longer, config: { ...config, learner: learner(40) } });
    expect(lines[0]).toMatch(
      /^\d+ demonstrated calls are longer than learner.maxTreeTokens \(40\): left out/,
    );
    const all = { ...parts, config: { ...config, learner: learner(1) } };
    await expect(startRun(all)).rejects.toThrow(/learner.maxTreeTokens: every demonstrated call/);
  });

  it('leaves out demonstrations that fail and says so; nobody is asked to judge them; none at all is an error', async () => {
    const lines: string[] = [];
    const { parts } = partsOf(
      'failing',
      (line) => lines.push(line),
      () => {},
    );
    const { environment } = parts;
    const failing = (fails: (id: string, rollout: number) => boolean): StartParts => ({
      ...parts,
      environment: {
        ...environment,
        demonstrate: async (query, options) => {
          expect(options.judged).toBe(false);
          if (fails(query.id, options.rollout)) throw new Error('the embedder is down');
          return environment.demonstrate(query, options);
        },
      },
    });
    await startRun(failing((id) => id === 't2'));
    expect(lines[0]).toMatch(
      /^(\d+) of \d+ demonstrations failed and are left out, .*: the embedder is down$/,
    );
    expect(lines.at(-1)).toContain('of 1 questions');
    await expect(startRun(failing(() => true))).rejects.toThrow(
      /the demonstrations of the warm start: all \d+ episodes failed, the last with: the embedder is down/,
    );
  });

  it('ends at the next update when the signal fires, with nothing published', async () => {
    const reason = new Error('interrupted');
    const { parts, endpoint, learner, controller } = partsOf(
      'broken',
      () => {},
      (done) => {
        if (done === 2) controller.abort(reason);
      },
    );
    await expect(startRun(parts)).rejects.toBe(reason);
    expect(learner.counts.update).toBe(3);
    expect(endpoint.log).toEqual([]);
  });
});
