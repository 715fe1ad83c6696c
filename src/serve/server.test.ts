/** The server over real HTTP and a real worker thread, with the fake model of test/serve. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  EOS,
  FAULT,
  referenceLogprobs,
  VOCABULARY,
  writeFakeAdapter,
  writeFakeModel,
} from '../../test/serve/fake-engine.ts';
import { UserError } from '../base/errors.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { type PolicyServer, type ServerOptions, startServer } from './server.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
let folder: string;
let modelFolder: string;
let adapterRoot: string;
let server: PolicyServer;
const opened: PolicyServer[] = [];

async function start(options: Partial<ServerOptions> = {}): Promise<PolicyServer> {
  const engineModule = new URL('../../test/serve/fake-engine.ts', import.meta.url);
  const started = await startServer({
    modelFolder,
    adapterRoot,
    servedModelName: 'base',
    engineModule,
    ...options,
  });
  opened.push(started);
  return started;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-serve-'));
  modelFolder = writeFakeModel(join(folder, 'model'), here('../../test/vectors/char-tokenizer'));
  adapterRoot = join(folder, 'adapters');
  writeFakeAdapter(join(adapterRoot, 'run-v1'), 0.5);
  writeFakeAdapter(join(adapterRoot, 'run-v2'), 0.9);
  writeFakeAdapter(join(adapterRoot, 'wide'), 0.9, 512);
  writeFakeAdapter(join(folder, 'elsewhere'), 0.9);
  symlinkSync(join(folder, 'elsewhere'), join(adapterRoot, 'link'));
  const broken = writeFakeAdapter(join(adapterRoot, 'broken'), 0);
  writeFileSync(join(broken, 'adapter_config.json'), '{"r": 4, "modules_to_save": ["lm_head"]}');
  const linked = writeFakeAdapter(join(adapterRoot, 'linked-file'), 0.1);
  symlinkSync(join(folder, 'elsewhere', 'adapter_config.json'), join(linked, 'adapter_model.safetensors'));
  writeFakeAdapter(join(adapterRoot, 'empty', 'inner'), 0);
  server = await start();
});
afterEach(async () => {
  await Promise.all(opened.filter((one) => one !== server).map((one) => one.close()));
});
afterAll(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

// biome-ignore lint/suspicious/noExplicitAny: the answers are read field by field, as a client would.
type Json = any;

async function post(path: string, body: unknown, to = server, headers: Record<string, string> = {}) {
  const response = await fetch(`${to.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const type = response.headers.get('content-type') ?? '';
  return { status: response.status, text, json: (type.includes('json') ? JSON.parse(text) : null) as Json };
}

const ask = (more: object = {}) => ({
  model: 'base',
  prompt: [5, 6, 7],
  max_tokens: 8,
  temperature: 1,
  seed: 3,
  logprobs: 0,
  return_token_ids: true,
  ...more,
});
const complete = (more: object = {}, to = server) => post('/v1/completions', ask(more), to);
const load = (name: string, path = join(adapterRoot, name), to = server) =>
  post('/v1/load_lora_adapter', { lora_name: name, lora_path: path }, to);
const unload = (name: string, to = server) => post('/v1/unload_lora_adapter', { lora_name: name }, to);

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 2_000; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error('the condition did not come true');
}

describe('completions', () => {
  it('answer ids, log-probabilities of the sampled tokens, and counts', async () => {
    const { status, json } = await complete();
    expect(status).toBe(200);
    const [choice] = json.choices;
    const { token_ids: ids } = choice;
    expect(json).toMatchObject({ object: 'text_completion', model: 'base' });
    expect(choice).toMatchObject({ index: 0, prompt_token_ids: [5, 6, 7], prompt_logprobs: null });
    expect(choice.logprobs.token_logprobs).toEqual(
      ids.map((id: number, i: number) => referenceLogprobs([5, 6, 7, ...ids.slice(0, i)], 0, 1)[id]),
    );
    expect(json.usage).toEqual({
      prompt_tokens: 3,
      completion_tokens: ids.length,
      total_tokens: 3 + ids.length,
    });
    const tokenizer = loadTokenizer(modelFolder);
    const spoken = choice.finish_reason === 'stop' ? ids.slice(0, -1) : ids;
    expect(choice.text).toBe(tokenizer.decode(spoken, { skipSpecial: true }));
    expect(choice.logprobs.tokens.length).toBe(ids.length);
    expect(choice.logprobs.text_offset[0]).toBe(0);
  });

  it('end on stop_token_ids with the token as reason, and on the end token with none', async () => {
    const greedy = (await complete({ temperature: 0, ignore_eos: true })).json.choices[0].token_ids;
    const stop = greedy[2];
    const stopped = (await complete({ temperature: 0, stop_token_ids: [stop] })).json.choices[0];
    expect(stopped).toMatchObject({ finish_reason: 'stop', stop_reason: stop });
    expect(stopped.token_ids).toEqual(greedy.slice(0, greedy.indexOf(stop) + 1));
    // Sampled long enough, one of 16 comes upon the end token.
    const { json } = await complete({ n: 16, max_tokens: 200 });
    const ended = json.choices.filter((choice: Json) => choice.token_ids.at(-1) === EOS);
    expect(ended.length).toBeGreaterThan(0);
    for (const choice of ended) expect(choice).toMatchObject({ finish_reason: 'stop', stop_reason: null });
  });

  it('of several prompts come in the order prompt × n + i', async () => {
    const prompts = [[5, 6, 7], [8], [9, 10]];
    const { json } = await complete({ prompt: prompts, n: 2 });
    expect(json.choices.map((choice: Json) => choice.index)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(json.choices.map((choice: Json) => choice.prompt_token_ids)).toEqual(
      [0, 0, 1, 1, 2, 2].map((p) => prompts[p]),
    );
    expect(json.usage.prompt_tokens).toBe(6);
    const alone = (await complete({ prompt: [8], seed: 4 })).json.choices[0];
    expect(json.choices[3].token_ids).toEqual(alone.token_ids);
  });

  it('score the prompt as vLLM shapes it: null first, then the own token with its rank', async () => {
    const prompt = [9, 4, 33, 70];
    for (const maxTokens of [0, 1]) {
      const { json } = await complete({ prompt, max_tokens: maxTokens, prompt_logprobs: 0 });
      const [first, ...rest] = json.choices[0].prompt_logprobs;
      expect(first).toBeNull();
      rest.forEach((entry: Json, i: number) => {
        const id = prompt[i + 1]!;
        const row = referenceLogprobs(prompt.slice(0, i + 1), 0, 1);
        expect(Object.keys(entry)).toEqual([String(id)]);
        expect(entry[id]).toMatchObject({
          logprob: row[id],
          rank: row.filter((lp) => lp >= row[id]!).length,
        });
        expect(typeof entry[id].decoded_token).toBe('string');
      });
      expect(json.usage.completion_tokens).toBe(maxTokens);
    }
  });

  it('echo the prompt, with its log-probabilities when they are asked for', async () => {
    const { json } = await complete({ prompt: [40, 41], max_tokens: 0, echo: true });
    const [choice] = json.choices;
    expect(choice.text).toBe(loadTokenizer(modelFolder).decode([40, 41], { skipSpecial: true }));
    expect(choice.logprobs.token_logprobs).toEqual([null, referenceLogprobs([40], 0, 1)[41]]);
    expect(choice.token_ids).toEqual([]);
  });

  it('of text prompts are those of their ids', async () => {
    const ids = loadTokenizer(modelFolder).encodeMarkup('ab');
    const { json } = await complete({ prompt: 'ab' });
    expect(json.choices[0].prompt_token_ids).toEqual(ids);
    expect(json.choices[0].token_ids).toEqual((await complete({ prompt: ids })).json.choices[0].token_ids);
  });

  it('reproduce from their seed, alone and among 64 others at once', async () => {
    const bodies = Array.from({ length: 64 }, (_, i) => ({
      seed: i,
      prompt: [2 + (i % 8), 50, 51],
      max_tokens: 4 + (i % 40),
    }));
    const alone = [];
    for (const body of bodies.slice(0, 12)) alone.push((await complete(body)).json.choices[0]);
    const crowd = await Promise.all(bodies.map((body) => complete(body)));
    expect(crowd.every(({ status }) => status === 200)).toBe(true);
    alone.forEach((choice, i) => {
      expect(crowd[i]!.json.choices[0]).toEqual(choice);
    });
    expect(new Set(crowd.map(({ json }) => json.choices[0].token_ids.join())).size).toBeGreaterThan(50);
  });

  it('without a seed differ from each other', async () => {
    const [a, b] = [await complete({ seed: null }), await complete({ seed: null })];
    expect(a.json.choices[0].token_ids).not.toEqual(b.json.choices[0].token_ids);
  });
});

describe('refusals', () => {
  const long = Array.from({ length: 4095 }, () => 5);
  it.each<[string, object | string, number, string | null]>([
    ['top_p other than 1', ask({ top_p: 0.9 }), 400, 'top_p'],
    ['top_k', ask({ top_k: 20 }), 400, 'top_k'],
    ['min_p', ask({ min_p: 0.1 }), 400, 'min_p'],
    ['a penalty', ask({ presence_penalty: 0.5 }), 400, 'presence_penalty'],
    ['a repetition penalty', ask({ repetition_penalty: 1.1 }), 400, 'repetition_penalty'],
    ['stop strings', ask({ stop: ['x'] }), 400, 'stop'],
    ['a stop string', ask({ stop: 'x' }), 400, 'stop'],
    ['streaming', ask({ stream: true }), 400, 'stream'],
    ['a logit bias', ask({ logit_bias: { 5: 10 } }), 400, 'logit_bias'],
    ['top log-probabilities', ask({ logprobs: 5 }), 400, 'logprobs'],
    ['structured outputs', ask({ structured_outputs: { regex: 'a' } }), 400, 'structured_outputs'],
    ['a field nobody knows', ask({ guided_json: {} }), 400, 'guided_json'],
    ['echo of a long completion', ask({ echo: true }), 400, 'echo'],
    ['nothing to do', ask({ max_tokens: 0 }), 400, 'max_tokens'],
    ['a negative temperature', ask({ temperature: -1 }), 400, 'temperature'],
    ['a temperature near 0', ask({ temperature: 1e-4 }), 400, 'temperature'],
    ['an id outside the vocabulary', ask({ prompt: [5, VOCABULARY] }), 400, 'prompt'],
    ['an empty prompt', ask({ prompt: [] }), 400, 'prompt'],
    ['a fractional id', ask({ prompt: [1.5] }), 400, 'prompt'],
    ['a prompt that is too long', ask({ prompt: long, max_tokens: 2 }), 400, 'input_tokens'],
    ['max_tokens that are too many', ask({ max_tokens: 4094 }), 400, 'input_tokens'],
    ['too many samples', ask({ n: 1025 }), 400, 'n'],
    ['an unknown model', ask({ model: 'x' }), 404, 'model'],
    ['no model', ask({ model: undefined }), 400, 'model'],
    ['a body that is no JSON', '{"model": ', 400, null],
    ['a body that is no object', '[]', 400, null],
  ])('name the field: %s', async (_, body, status, param) => {
    const answer = await post('/v1/completions', body);
    expect(answer.status).toBe(status);
    expect(answer.json.error).toMatchObject({ param, code: status });
    expect(answer.json.error.message.length).toBeGreaterThan(5);
  });

  it('pass neutral values and nulls', async () => {
    const neutral = {
      top_p: 1,
      top_k: -1,
      min_p: 0,
      presence_penalty: 0,
      repetition_penalty: 1,
      stop: [],
      stream: false,
      logit_bias: null,
      best_of: 1,
      user: 'someone',
    };
    expect((await complete(neutral)).status).toBe(200);
  });

  it('give the texts clients match on', async () => {
    const unknown = await complete({ model: 'x' });
    expect(unknown.json.error).toEqual({
      message: 'The model `x` does not exist.',
      type: 'NotFoundError',
      param: 'model',
      code: 404,
    });
    expect((await complete({ max_tokens: 5000 })).json.error.message).toMatch(/maximum context length/);
  });

  it('know routes, methods and media types', async () => {
    expect((await post('/v1/chat/completions', {})).status).toBe(404);
    expect((await fetch(`${server.url}/v1/completions`)).status).toBe(405);
    const form = await post('/v1/completions', ask(), server, { 'content-type': 'text/plain' });
    expect(form.status).toBe(400);
  });

  it('of what exceeds body and queue limits', async () => {
    const small = await start({ maxBodyBytes: 1000, maxQueued: 4 });
    expect((await complete({ prompt: Array(600).fill(5) }, small)).status).toBe(413);
    const { status, json } = await complete({ n: 5 }, small);
    expect([status, json.error.type]).toEqual([429, 'TooManyRequests']);
    expect((await complete({ n: 4 }, small)).status).toBe(200);
  });
});

describe('adapters', () => {
  it('load, are listed with their folder, answer otherwise than the base, and unload', async () => {
    const loaded = await load('run-v1');
    expect([loaded.status, loaded.text]).toEqual([200, "Success: LoRA adapter 'run-v1' added successfully."]);
    await load('run-v2');
    const models = (await (await fetch(`${server.url}/v1/models`)).json()) as Json;
    expect(models.data).toMatchObject([
      { id: 'base', parent: null, max_model_len: 4096 },
      { id: 'run-v1', root: join(adapterRoot, 'run-v1'), parent: 'base' },
      { id: 'run-v2', root: join(adapterRoot, 'run-v2'), parent: 'base' },
    ]);
    const answers: Json[] = [];
    for (const model of ['base', 'run-v1', 'run-v2']) answers.push((await complete({ model })).json);
    expect(answers.map(({ model }) => model)).toEqual(['base', 'run-v1', 'run-v2']);
    [0, 0.5, 0.9].forEach((bias, i) => {
      const { token_ids: ids, logprobs } = answers[i].choices[0];
      const expected = referenceLogprobs([5, 6, 7], Math.fround(bias), 1)[ids[0]];
      expect(logprobs.token_logprobs[0]).toBe(expected);
    });
    const unloaded = await unload('run-v1');
    expect([unloaded.status, unloaded.text]).toEqual([
      200,
      "Success: LoRA adapter 'run-v1' removed successfully.",
    ]);
    expect((await complete({ model: 'run-v1' })).status).toBe(404);
    await unload('run-v2');
    await until(async () => (await server.stats()).adapters === 0);
  });

  it.each<[string, () => ReturnType<typeof post>, number, string, RegExp]>([
    [
      'no path',
      () => post('/v1/load_lora_adapter', { lora_name: 'x' }),
      400,
      'InvalidUserInput',
      /must be provided/,
    ],
    ['no folder', () => load('absent'), 404, 'NotFoundError', /No adapter found/],
    ['no config', () => load('empty'), 404, 'NotFoundError', /No adapter found/],
    ['a rank above the ceiling', () => load('wide'), 400, 'BadRequestError', /rank 512/],
    ['modules_to_save', () => load('broken'), 400, 'BadRequestError', /modules_to_save/],
    ["the base model's name", () => load('base'), 400, 'BadRequestError', /base model/],
    ['a relative path', () => load('x', 'adapters/run-v1'), 400, 'BadRequestError', /absolute/],
    [
      'a path elsewhere',
      () => load('x', join(adapterRoot, '../elsewhere')),
      400,
      'BadRequestError',
      /not below/,
    ],
    ['a path to nowhere elsewhere', () => load('x', '/nowhere'), 400, 'BadRequestError', /not below/],
    ['a link to elsewhere', () => load('link'), 400, 'BadRequestError', /not below/],
    ['a file that links elsewhere', () => load('linked-file'), 400, 'BadRequestError', /not below/],
    ['the folder itself', () => load('x', adapterRoot), 400, 'BadRequestError', /not below/],
    [
      'load_inplace',
      () => post('/v1/load_lora_adapter', { lora_name: 'x', lora_path: '/x', load_inplace: true }),
      400,
      'BadRequestError',
      /load_inplace/,
    ],
    ['an unknown name to unload', () => unload('x'), 404, 'NotFoundError', /'x' cannot be found/],
    [
      'no name to unload',
      () => post('/v1/unload_lora_adapter', {}),
      400,
      'InvalidUserInput',
      /must be provided/,
    ],
  ])('are refused: %s', async (_, act, status, type, message) => {
    const answer = await act();
    expect([answer.status, answer.json?.error.type, answer.json?.error.code]).toEqual([status, type, status]);
    expect(answer.json.error.message).toMatch(message);
  });

  it('keep their names: loaded twice, another path, other weights are refused', async () => {
    const own = await start();
    const path = writeFakeAdapter(join(adapterRoot, 'fixed'), 0.3);
    expect((await load('fixed', path, own)).status).toBe(200);
    const twice = await load('fixed', path, own);
    expect([twice.status, twice.json.error.type]).toEqual([400, 'InvalidUserInput']);
    expect(twice.json.error.message).toMatch(/has already been loaded/);
    await unload('fixed', own);
    const moved = await load('fixed', join(adapterRoot, 'run-v1'), own);
    expect([moved.status, moved.json.error.message]).toEqual([400, expect.stringContaining('never reused')]);
    writeFakeAdapter(path, 0.4);
    expect((await load('fixed', path, own)).json.error.message).toMatch(/have changed/);
    writeFakeAdapter(path, 0.3);
    expect((await load('fixed', path, own)).status).toBe(200);
  });

  it('are at most so many at once, and never more than that in memory over 100 loads', async () => {
    const own = await start({ maxAdapters: 2 });
    await load('run-v1', undefined, own);
    await load('run-v2', undefined, own);
    const third = await load('fixed', writeFakeAdapter(join(adapterRoot, 'fixed'), 0.3), own);
    expect([third.status, third.json.error.message]).toEqual([400, expect.stringContaining('unload one')]);
    await unload('run-v1', own);
    for (let i = 0; i < 100; i++) {
      const name = `many-v${i}`;
      await load(name, writeFakeAdapter(join(adapterRoot, name), i / 100), own);
      await complete({ model: name, max_tokens: 1 }, own);
      await unload(name, own);
      rmSync(join(adapterRoot, name), { recursive: true });
    }
    await until(async () => (await own.stats()).adapters === 1);
  });

  it('unloaded in mid request end it first, with their own weights', async () => {
    const own = await start();
    await load('run-v1', undefined, own);
    const alone = (await complete({ model: 'run-v1', max_tokens: 400, ignore_eos: true }, own)).json;
    const body = { model: 'run-v1', max_tokens: 400, ignore_eos: true };
    const inFlight = complete(body, own);
    await until(async () => (await own.stats()).running > 0);
    await unload('run-v1', own);
    expect((await complete(body, own)).status).toBe(404);
    expect((await inFlight).json.choices).toEqual(alone.choices);
    await until(async () => (await own.stats()).adapters === 0);
  });
});

describe('trouble', () => {
  it('of a client that leaves: its row is freed long before its last token', async () => {
    const own = await start();
    const abort = new AbortController();
    const request = fetch(`${own.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(ask({ max_tokens: 4000, ignore_eos: true })),
      signal: abort.signal,
    });
    const failed = expect(request).rejects.toThrow();
    await until(async () => (await own.stats()).running === 1);
    abort.abort();
    await failed;
    await until(async () => (await own.stats()).running === 0);
    expect((await own.stats()).sampledTokens).toBeLessThan(4000);
    expect((await complete({}, own)).status).toBe(200);
  });

  it('in the model is a 500 that says so, and the next request works', async () => {
    for (const [token, message] of [
      [FAULT.stepThrows, /injected step fault/],
      [FAULT.prefillThrows, /injected prefill fault/],
      [FAULT.nan, /not finite/],
    ] as const) {
      const { status, json } = await complete({ prompt: [token, 5], ignore_eos: true });
      expect([status, json.error.type]).toEqual([500, 'InternalServerError']);
      expect(json.error.message).toMatch(message);
    }
    expect((await complete()).status).toBe(200);
  });

  it('when the engine dies: requests under way and later ones get 503, health too', async () => {
    const own = await start();
    const health = async () => (await fetch(`${own.url}/health`)).status;
    expect(await health()).toBe(200);
    const inFlight = complete({ max_tokens: 4000, ignore_eos: true }, own);
    await until(async () => (await own.stats()).running === 1);
    const killer = await complete({ prompt: [FAULT.dies] }, own);
    for (const { status, json } of [killer, await inFlight, await complete({}, own)]) {
      expect([status, json.error.type]).toEqual([503, 'ServiceUnavailable']);
      expect(json.error.message).toMatch(/the engine is dead: .*code 7/);
    }
    expect((await load('run-v1', undefined, own)).status).toBe(503);
    expect(await health()).toBe(503);
  });

  it('at the start is a UserError: taken port, open bind without a key, no such folders', async () => {
    const wrong = async (options: Partial<ServerOptions>) => {
      const error = await start(options).then(
        () => null,
        (thrown) => thrown,
      );
      expect(error).toBeInstanceOf(UserError);
      return error.message as string;
    };
    expect(await wrong({ port: server.port })).toMatch(new RegExp(`port ${server.port} is taken`));
    expect(await wrong({ host: '0.0.0.0' })).toMatch(/API key/);
    expect(await wrong({ adapterRoot: join(folder, 'nowhere') })).toMatch(/nowhere/);
    expect(await wrong({ modelFolder: join(folder, 'nowhere') })).toMatch(/nowhere/);
  });

  it('with the key: 401 without it everywhere but at the health check', async () => {
    const own = await start({ apiKey: 'secret' });
    expect((await complete({}, own)).status).toBe(401);
    expect((await post('/tokenize', { prompt: 'a' }, own)).status).toBe(401);
    expect((await fetch(`${own.url}/health`)).status).toBe(200);
    const wrong = await post('/v1/completions', ask(), own, { authorization: 'Bearer other' });
    expect(wrong.status).toBe(401);
    const right = await post('/v1/completions', ask(), own, { authorization: 'Bearer secret' });
    expect(right.status).toBe(200);
  });
});

describe('small routes', () => {
  it('tokenize text and messages', async () => {
    const tokenizer = loadTokenizer(modelFolder);
    const text = await post('/tokenize', { prompt: 'ab', return_token_strs: true });
    const tokens = tokenizer.encodeMarkup('ab');
    expect(text.json).toEqual({ count: tokens.length, max_model_len: 4096, tokens, token_strs: ['a', 'b'] });
    const chat = await post('/tokenize', { messages: [{ role: 'user', content: 'ab' }] });
    expect(chat.json.count).toBeGreaterThan(tokens.length);
    expect((await post('/tokenize', {})).status).toBe(400);
  });

  it('tell the version', async () => {
    const answer = (await (await fetch(`${server.url}/version`)).json()) as Json;
    expect(answer.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
