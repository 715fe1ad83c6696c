/** The endpoint client against a server that answers wrongly in every way we know of. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type CompletionCall, createEndpoint, type Endpoint, RolloutFailure } from './endpoint.ts';

type Handler = (request: IncomingMessage, body: Record<string, unknown>, response: ServerResponse) => void;
const servers: Server[] = [];

/** A server of one handler; what it was sent is in `seen`. */
async function serve(handler: Handler) {
  const seen: { path: string; body: Record<string, unknown>; key: string | undefined }[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = text ? JSON.parse(text) : {};
    seen.push({ path: request.url!, body, key: request.headers.authorization });
    handler(request, body, response);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, seen };
}
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

const connect = (baseUrl: string, deadlineMs = 10_000): Endpoint =>
  createEndpoint({ baseUrl, apiKey: 'k', deadlineMs, maxConcurrent: 8 });

const json = (response: ServerResponse, body: unknown, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
};

const call: CompletionCall = {
  model: 'run-v3',
  promptIds: [5, 6, 7],
  maxTokens: 4,
  temperature: 0.8,
  seed: 12,
  stopTokenIds: [1],
  cacheSalt: 'v3',
};
const choice = {
  index: 0,
  text: 'ab',
  finish_reason: 'stop',
  logprobs: { token_logprobs: [-0.5, -1.5, -0.25], tokens: [], text_offset: [], top_logprobs: [] },
  token_ids: [8, 9, 1],
  prompt_token_ids: [5, 6, 7],
  prompt_logprobs: [null, { 6: { logprob: -0.75 } }, { 7: { logprob: -2 } }],
};
const answer = {
  id: 'x',
  object: 'text_completion',
  model: 'run-v3',
  choices: [choice],
  usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
};
const withChoice = (more: object) => ({ ...answer, choices: [{ ...choice, ...more }] });
const withLogprobs = (values: unknown[]) => withChoice({ logprobs: { token_logprobs: values } });

async function failureOf(promise: Promise<unknown>): Promise<RolloutFailure> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RolloutFailure);
  return error as RolloutFailure;
}

describe('complete', () => {
  it('sends every sampling parameter, and gives the sample as it came', async () => {
    const { url, seen } = await serve((_, __, response) => json(response, answer));
    expect(await connect(`${url}/v1/`).complete(call)).toEqual({
      model: 'run-v3',
      promptIds: [5, 6, 7],
      outputIds: [8, 9, 1],
      logprobs: [-0.5, -1.5, -0.25],
      temperature: 0.8,
      finishReason: 'stop',
      text: 'ab',
    });
    expect(seen).toEqual([
      {
        path: '/v1/completions',
        key: 'Bearer k',
        body: {
          model: 'run-v3',
          prompt: [5, 6, 7],
          max_tokens: 4,
          n: 1,
          seed: 12,
          temperature: 0.8,
          top_p: 1,
          top_k: 0,
          min_p: 0,
          presence_penalty: 0,
          frequency_penalty: 0,
          repetition_penalty: 1,
          stop_token_ids: [1],
          ignore_eos: false,
          logprobs: 0,
          return_token_ids: true,
          stream: false,
          cache_salt: 'v3',
        },
      },
    ]);
  });

  it.each<[string, unknown, string, RegExp]>([
    ['another model', { ...answer, model: 'run-v2' }, 'wrong-model', /asked for run-v3, answered by run-v2/],
    ['other prompt ids', withChoice({ prompt_token_ids: [5, 6, 8] }), 'invalid-answer', /prompt_token_ids/],
    ['a longer prompt', withChoice({ prompt_token_ids: [5, 6, 7, 7] }), 'invalid-answer', /prompt_token_ids/],
    ['no ids', withChoice({ token_ids: null }), 'invalid-answer', /return_token_ids/],
    [
      'no tokens',
      {
        ...withChoice({ token_ids: [], logprobs: { token_logprobs: [] } }),
        usage: { prompt_tokens: 3, completion_tokens: 0 },
      },
      'invalid-answer',
      /0 output tokens/,
    ],
    [
      'too many tokens',
      { ...withChoice({ token_ids: [1, 2, 3, 4, 5] }), usage: { prompt_tokens: 3, completion_tokens: 5 } },
      'invalid-answer',
      /5 output tokens/,
    ],
    ['a log-probability too few', withLogprobs([-1, -1]), 'invalid-answer', /2 log-prob.* 3 output/],
    ['no log-probabilities', withChoice({ logprobs: null }), 'invalid-answer', /0 log-prob/],
    ['a null among them', withLogprobs([-1, null, -1]), 'invalid-answer', /token_logprobs.1/],
    ['a clamped minus infinity', withLogprobs([-1, -1, -9999]), 'invalid-answer', /token_logprobs.2: -9999/],
    ['a positive one', withLogprobs([0.2, -1, -1]), 'invalid-answer', /token_logprobs.0/],
    [
      'another prompt count',
      { ...answer, usage: { prompt_tokens: 4, completion_tokens: 3 } },
      'invalid-answer',
      /usage counts 4/,
    ],
    [
      'another output count',
      { ...answer, usage: { prompt_tokens: 3, completion_tokens: 2 } },
      'invalid-answer',
      /usage counts 2/,
    ],
    ['an aborted sample', withChoice({ finish_reason: 'abort' }), 'invalid-answer', /abort/],
    ['two choices', { ...answer, choices: [choice, choice] }, 'invalid-answer', /choices/],
    ['a NaN, which is no JSON', '{"model": "run-v3", "choices": [{"logprob": NaN}]}', 'invalid-answer', /./],
    ['something else', { ok: true }, 'invalid-answer', /model/],
  ])('refuses %s', async (_, body, reason, message) => {
    const { url, seen } = await serve((_request, _body, response) => json(response, body));
    const failure = await failureOf(connect(url).complete(call));
    expect(failure.reason).toBe(reason);
    expect(failure.message).toMatch(message);
    expect(seen.length).toBe(1);
  });

  it.each<[number, object, string]>([
    [400, { message: 'too long', type: 'BadRequestError', param: 'input_tokens', code: 400 }, 'too-long'],
    [400, { message: "This model's maximum context length is 9", param: null, code: 400 }, 'too-long'],
    [404, { message: 'The model `run-v3` does not exist.', param: 'model', code: 404 }, 'unknown-model'],
    [404, { message: 'no such route', param: null, code: 404 }, 'http'],
    [400, { message: 'bad', param: 'top_k', code: 400 }, 'http'],
    [500, { message: 'oops', param: null, code: 500 }, 'http'],
    [503, { message: 'the engine is dead', param: null, code: 503 }, 'http'],
  ])('says what a %i means, and does not ask again', async (status, error, reason) => {
    const { url, seen } = await serve((_, __, response) => json(response, { error }, status));
    const failure = await failureOf(connect(url).complete(call));
    expect(failure).toMatchObject({ reason, status });
    expect(failure.message).toContain((error as { message: string }).message);
    expect(seen.length).toBe(1);
  });

  it('asks again after a connection lost before the answer, three times in all', async () => {
    let times = 0;
    const { url } = await serve((request, _, response) => {
      if (++times < 3) request.socket.destroy();
      else json(response, answer);
    });
    expect((await connect(url).complete(call)).outputIds).toEqual([8, 9, 1]);
    times = -10;
    expect((await failureOf(connect(url).complete(call))).reason).toBe('connection');
    expect(times).toBe(-7);
  });

  it('does not ask again after a connection lost in the middle of the answer', async () => {
    const { url, seen } = await serve((request, _, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
      response.write('{"model":');
      setTimeout(() => request.socket.destroy(), 20);
    });
    expect((await failureOf(connect(url).complete(call))).reason).toBe('connection');
    expect(seen.length).toBe(1);
  });

  it('waits out a full queue, until its deadline', async () => {
    let full = 2;
    const { url, seen } = await serve((_, __, response) => {
      if (full-- > 0) json(response, { error: { message: 'full', code: 429 } }, 429);
      else json(response, answer);
    });
    await connect(url).complete(call);
    expect(seen.length).toBe(3);
    full = 1e9;
    expect((await failureOf(connect(url, 300).complete(call))).reason).toBe('overloaded');
  });

  it('gives up at its deadline, before or within the answer, and closes the socket', async () => {
    let closed = 0;
    const { url } = await serve((request, body, response) => {
      request.socket.once('close', () => closed++);
      if (body.seed === 1) response.write('{"model":');
    });
    const endpoint = connect(url, 150);
    for (const seed of [0, 1]) {
      expect((await failureOf(endpoint.complete({ ...call, seed }))).reason).toBe('deadline');
    }
    while (closed < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('has at most maxConcurrent calls under way, and serves all of them', async () => {
    let active = 0;
    let most = 0;
    const { url } = await serve((_, __, response) => {
      most = Math.max(most, ++active);
      setTimeout(() => {
        active--;
        json(response, answer);
      }, 5);
    });
    const endpoint = connect(url);
    await Promise.all(Array.from({ length: 50 }, () => endpoint.complete(call)));
    expect(most).toBe(8);
  });

  it('fails when nobody listens', async () => {
    const { url } = await serve(() => {});
    await new Promise((resolve) => servers.pop()!.close(resolve));
    expect((await failureOf(connect(url).complete(call))).reason).toBe('connection');
  });
});

describe('promptLogprobs', () => {
  it('are those of the ids after the first', async () => {
    const { url, seen } = await serve((_, __, response) => json(response, answer));
    expect(await connect(url).promptLogprobs('run-v3', [5, 6, 7])).toEqual([-0.75, -2]);
    expect(seen[0]!.body).toMatchObject({ prompt_logprobs: 0, max_tokens: 1, temperature: 1 });
  });

  it.each<[string, object]>([
    ['too few', { prompt_logprobs: [null, { 6: { logprob: -1 } }] }],
    ['none', { prompt_logprobs: null }],
    ['another token', { prompt_logprobs: [null, { 6: { logprob: -1 } }, { 8: { logprob: -1 } }] }],
    [
      'a first one',
      { prompt_logprobs: [{ 5: { logprob: -1 } }, { 6: { logprob: -1 } }, { 7: { logprob: -1 } }] },
    ],
    ['an impossible one', { prompt_logprobs: [null, { 6: { logprob: -9999 } }, { 7: { logprob: -1 } }] }],
  ])('are refused: %s', async (_, more) => {
    const { url } = await serve((_request, _body, response) => json(response, withChoice(more)));
    expect((await failureOf(connect(url).promptLogprobs('run-v3', [5, 6, 7]))).reason).toBe('invalid-answer');
  });
});

describe('adapters', () => {
  const already = {
    error: { message: "The lora adapter 'a' has already been loaded.", type: 'InvalidUserInput', code: 400 },
  };
  const listed = (root: string) => ({
    data: [
      { id: 'base', root: '/m', parent: null, max_model_len: 64 },
      { id: 'a', root, parent: 'base' },
    ],
  });

  it('load without load_inplace, and unload', async () => {
    const { url, seen } = await serve((_, __, response) => {
      response.setHeader('content-type', 'text/plain');
      response.end('Success');
    });
    await connect(url).loadAdapter('a', '/adapters/a');
    await connect(url).unloadAdapter('a');
    expect(seen.map(({ path, body }) => [path, body])).toEqual([
      ['/v1/load_lora_adapter', { lora_name: 'a', lora_path: '/adapters/a' }],
      ['/v1/unload_lora_adapter', { lora_name: 'a' }],
    ]);
  });

  it.each([
    ['/adapters/a', true],
    ['/adapters/old', false],
  ])('already loaded from %s counts as loaded: %s', async (root, fine) => {
    const { url } = await serve((request, _, response) =>
      request.method === 'GET' ? json(response, listed(root)) : json(response, already, 400),
    );
    const loading = connect(url).loadAdapter('a', '/adapters/a');
    if (fine) await loading;
    else expect(await failureOf(loading)).toMatchObject({ reason: 'http', status: 400 });
  });

  it('are never loaded or unloaded twice by the client itself', async () => {
    const { url, seen } = await serve((request) => request.socket.destroy());
    expect((await failureOf(connect(url).loadAdapter('a', '/a'))).reason).toBe('connection');
    expect((await failureOf(connect(url).unloadAdapter('a'))).reason).toBe('connection');
    expect(seen.length).toBe(2);
  });

  it('are listed with root', async () => {
    const { url } = await serve((_, __, response) => json(response, listed('/adapters/a')));
    expect(await connect(url).listModels()).toEqual([
      { id: 'base', root: '/m' },
      { id: 'a', root: '/adapters/a' },
    ]);
  });
});
