/** The server over a model of each family: ids in, ids out, log-probabilities as the reference has them. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../src/base/test-support.ts';
import { loraScale, readAdapter } from '../../src/engine/peft.ts';
import { chainBatch } from '../../src/engine/test-support.ts';
import { createTrainingSession } from '../../src/engine/training-session.ts';
import { createEndpoint, type Endpoint } from '../../src/rollout/endpoint.ts';
import { type PolicyServer, startServer } from '../../src/serve/server.ts';
import { loadModel } from '../../src/trainer/prepare.ts';
import { FAMILIES, loadFamily } from '../vectors/families.ts';

const tokenizerPath = (name: string): string => fileURLToPath(new URL(`../vectors/${name}`, import.meta.url));
const scratch = temporaryFolder();

interface Served {
  server: PolicyServer;
  endpoint: Endpoint;
  folder: string;
}

/** A family's folder with a tokenizer, and an adapter `run-v1`, served. */
async function serve(name: string, tokenizer: string): Promise<Served> {
  const { folder: source } = loadFamily(name);
  const folder = mkdtempSync(join(scratch, `${name}-`));
  const adapterRoot = join(folder, 'adapters');
  mkdirSync(adapterRoot);
  cpSync(source, folder, { recursive: true });
  cpSync(join(source, 'adapter'), join(adapterRoot, 'run-v1'), { recursive: true });
  cpSync(tokenizerPath(tokenizer), folder, { recursive: true });
  const server = await startServer({
    modelFolder: folder,
    adapterRoot,
    servedModelName: 'base',
    threads: 1,
  });
  const endpoint = createEndpoint({ baseUrl: server.url, deadlineMs: 30_000, maxConcurrent: 8 });
  await endpoint.loadAdapter('run-v1', join(adapterRoot, 'run-v1'));
  return { server, endpoint, folder };
}

const TOKENIZERS: Record<(typeof FAMILIES)[number], string> = {
  qwen3: 'byte-tokenizer',
  'qwen2.5': 'byte-tokenizer',
  'qwen2.5-yarn': 'char-tokenizer',
  llama3: 'llama3-tokenizer',
  smollm: 'smollm-tokenizer',
  'llama-biases': 'llama2-tokenizer',
  mistral: 'mistral-tokenizer',
};

describe.each(FAMILIES)('%s', (name) => {
  const { vectors } = loadFamily(name);
  let served: Served;
  beforeAll(async () => {
    served = await serve(name, TOKENIZERS[name]);
  });
  afterAll(() => served?.server.close());

  test('scores prompts as PyTorch does', async () => {
    for (const [model, kind] of [
      ['base', 'base'],
      ['run-v1', 'lora'],
    ] as const) {
      for (const [i, { ids }] of vectors.samples.entries()) {
        const scored = await served.endpoint.promptLogprobs(model, ids);
        scored.forEach((value, k) => {
          expect(Math.abs(value - vectors.kinds[kind].logprobs[i]![k]!)).toBeLessThan(2e-5);
        });
      }
    }
  });

  test('samples carry what the training graph says of them', async () => {
    const prompt = vectors.samples[1]!.ids.slice(0, 7);
    const { outputIds, logprobs } = await served.endpoint.complete({
      model: 'run-v1',
      promptIds: prompt,
      maxTokens: 20,
      temperature: 0.9,
      seed: 4,
      stopTokenIds: [],
    });
    const { spec, tensors } = readAdapter(join(served.folder, 'adapters', 'run-v1'));
    const options = {
      folder: served.folder,
      lora: spec,
      mode: 'lora',
      gradients: false,
      threads: 1,
    } as const;
    const session = await createTrainingSession(options);
    const batch = chainBatch([{ ids: [...prompt, ...outputIds], promptLength: prompt.length }]);
    const { rows } = await session.run(batch, tensors, loraScale(spec), { temperature: 0.9 });
    await session.release();
    expect(logprobs).toHaveLength(rows.logprobs.length);
    logprobs.forEach((value, k) => {
      expect(Math.abs(value - rows.logprobs[k]!)).toBeLessThan(2e-5);
    });
  });

  if (name === 'llama3')
    test('any of several end tokens ends an answer, and is in its ids', async () => {
      const answers = await Promise.all(
        Array.from({ length: 60 }, (_, seed) =>
          served.endpoint.complete({
            model: 'base',
            promptIds: [2, 10 + (seed % 30)],
            maxTokens: 40,
            temperature: 1.5,
            seed,
            stopTokenIds: [],
          }),
        ),
      );
      const ends = new Set<number>();
      for (const { outputIds, finishReason } of answers) {
        if (finishReason === 'stop') ends.add(outputIds.at(-1)!);
        expect(outputIds.slice(0, -1).filter((id) => [1, 4, 5].includes(id))).toEqual([]);
      }
      expect(ends).toEqual(new Set([1, 4, 5]));
    });

  if (name === 'mistral')
    test('a text prompt starts with the start token, unless asked not to', async () => {
      const tokenize = async (body: object): Promise<number[]> => {
        const response = await fetch(`${served.server.url}/tokenize`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
        return ((await response.json()) as { tokens: number[] }).tokens;
      };
      const bare = await tokenize({ prompt: 'a', add_special_tokens: false });
      expect(await tokenize({ prompt: 'a' })).toEqual([1, ...bare]);
      const messages = [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'U' },
      ];
      const rendered = await tokenize({ messages });
      expect(rendered.filter((id) => id < 5)).toEqual([1, 3, 4]);
    });
});

test('a run ends its demonstrations with the token that ends a turn, not with the first of several', () => {
  const folder = mkdtempSync(join(scratch, 'run-'));
  cpSync(loadFamily('llama3').folder, folder, { recursive: true });
  cpSync(tokenizerPath('llama3-tokenizer'), folder, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  const { added_tokens } = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'));
  const idOf = (content: string): number =>
    added_tokens.find((token: { content: string }) => token.content === content).id;
  const ends = ['<|end_of_text|>', '<|eom_id|>', '<|eot_id|>'].map(idOf);
  const write = (eos: number[]) =>
    writeFileSync(
      join(folder, 'config.json'),
      JSON.stringify({ ...config, vocab_size: 600, eos_token_id: eos }),
    );
  write(ends);
  expect(loadModel(folder).endId).toBe(idOf('<|eot_id|>'));
  write(ends.slice(0, 2));
  expect(() => loadModel(folder)).toThrow(/ends a turn with <\|eot_id\|>/);
});
