/**
 * The whole way: endpoint client, HTTP, engine thread, decode graph, against what PyTorch, transformers and
 * PEFT compute for the same tiny model and adapter.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../../src/base/errors.ts';
import { createEndpoint, type Endpoint } from '../../src/rollout/endpoint.ts';
import { type PolicyServer, startServer } from '../../src/serve/server.ts';
import { loadQwen3Tiny } from '../vectors/qwen3-tiny.ts';

const { folder: tiny, adapterFolder, vectors } = loadQwen3Tiny();
const TOKENIZER = fileURLToPath(new URL('../vectors/char-tokenizer', import.meta.url));
let folder: string;
let server: PolicyServer;
let endpoint: Endpoint;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-serve-real-'));
  const modelFolder = join(folder, 'model');
  cpSync(tiny, modelFolder, { recursive: true });
  // The tiny model has no tokenizer of its own; any will do for ids in and ids out.
  cpSync(TOKENIZER, modelFolder, { recursive: true });
  const adapterRoot = join(folder, 'adapters');
  mkdirSync(adapterRoot);
  for (const name of ['run-v1', 'run-v2'])
    cpSync(adapterFolder, join(adapterRoot, name), { recursive: true });
  server = await startServer({ modelFolder, adapterRoot, servedModelName: 'base', threads: 1 });
  endpoint = createEndpoint({ baseUrl: server.url, deadlineMs: 30_000, maxConcurrent: 64 });
  await endpoint.loadAdapter('run-v1', join(adapterRoot, 'run-v1'));
});
afterAll(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

const call = (promptIds: number[], more: object = {}) => ({
  model: 'run-v1',
  promptIds,
  maxTokens: 8,
  temperature: 1,
  seed: 5,
  stopTokenIds: [],
  ...more,
});

describe('base model and adapter', () => {
  it.each([
    ['base', 'base'],
    ['run-v1', 'adapter'],
  ] as const)('%s scores prompts as PyTorch does', async (model, key) => {
    for (const sample of vectors.samples) {
      const logprobs = await endpoint.promptLogprobs(model, sample.ids);
      const expected = sample[key]['temperature 1'].logprobs;
      expect(logprobs.length).toBe(expected.length);
      logprobs.forEach((value, i) => {
        expect(Math.abs(value - expected[i]!)).toBeLessThan(2e-5);
      });
    }
  });

  it.each([
    ['base', 'base'],
    ['run-v1', 'adapter'],
  ] as const)('%s continues greedily as PyTorch does', async (model, key) => {
    for (const sample of vectors.samples) {
      const prompt = sample.ids.slice(0, sample.promptLength);
      const { outputIds } = await endpoint.complete(call(prompt, { model, temperature: 0 }));
      const { greedy } = sample[key];
      expect(outputIds).toEqual(greedy.slice(0, outputIds.length));
      expect(outputIds.length).toBeGreaterThan(0);
    }
  });
});

it('samples carry the log-probabilities that scoring the same tokens gives', async () => {
  const prompt = vectors.samples[0]!.ids.slice(0, vectors.samples[0]!.promptLength);
  const { outputIds, logprobs } = await endpoint.complete(call(prompt));
  const scored = await endpoint.promptLogprobs('run-v1', [...prompt, ...outputIds]);
  scored.slice(prompt.length - 1).forEach((value, i) => {
    expect(Math.abs(value - logprobs[i]!)).toBeLessThan(2e-5);
  });
});

it('the same seed gives the same bits alone and in a crowd of 63 others', async () => {
  const asked = Array.from({ length: 64 }, (_, i) =>
    call(vectors.samples[i % vectors.samples.length]!.ids.slice(0, 4 + (i % 5)), {
      seed: i,
      maxTokens: 4 + (i % 30),
      model: i % 3 === 0 ? 'base' : 'run-v1',
      temperature: i % 2 === 0 ? 1 : 0.7,
    }),
  );
  const alone = [];
  for (const one of asked.slice(0, 10)) alone.push(await endpoint.complete(one));
  const crowd = await Promise.all(asked.map((one) => endpoint.complete(one)));
  expect(crowd.slice(0, 10)).toEqual(alone);
});

it('an adapter served under a second name gives the same, and is gone once unloaded', async () => {
  await endpoint.loadAdapter('run-v2', join(folder, 'adapters', 'run-v2'));
  const prompt = [3, 4, 5];
  const [first, second] = [
    await endpoint.complete(call(prompt)),
    await endpoint.complete(call(prompt, { model: 'run-v2' })),
  ];
  expect(second).toEqual({ ...first, model: 'run-v2' });
  await endpoint.unloadAdapter('run-v2');
  await expect(endpoint.complete(call(prompt, { model: 'run-v2' }))).rejects.toMatchObject({
    reason: 'unknown-model',
  });
});

it('a model whose weights are cut short is a UserError at the start', async () => {
  const broken = join(folder, 'broken');
  cpSync(join(folder, 'model'), broken, { recursive: true });
  truncateSync(join(broken, 'model.safetensors'), 5000);
  const starting = startServer({ modelFolder: broken, adapterRoot: join(folder, 'adapters') });
  await expect(starting).rejects.toBeInstanceOf(UserError);
});
