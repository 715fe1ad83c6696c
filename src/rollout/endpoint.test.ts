/** The endpoint client against a server that answers wrongly in every way we know of. */
import { describe, expect, it } from 'vitest';
import { createEndpoint } from './endpoint.ts';
import {
  answer,
  call,
  choice,
  connect,
  failureOf,
  json,
  serve,
  servers,
  withChoice,
  withLogprobs,
} from './test-support.ts';

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
          min_tokens: 0,
          skip_special_tokens: true,
          include_stop_str_in_output: false,
          echo: false,
          logprobs: 0,
          return_token_ids: true,
          stream: false,
          cache_salt: 'v3',
        },
      },
    ]);
  });

  it('sends top-p and top-k as asked', async () => {
    const { url, seen } = await serve((_, __, response) => json(response, answer));
    await connect(url).complete({ ...call, topP: 0.9, topK: 20 });
    expect(seen[0]!.body).toMatchObject({ top_p: 0.9, top_k: 20 });
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
    [
      'a sample that was cut before max_tokens',
      withChoice({ finish_reason: 'length' }),
      'too-long',
      /3 of 4 output tokens/,
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
    [
      400,
      {
        message: 'max_tokens=600 cannot be greater than max_model_len=512.',
        type: 'BadRequestError',
        param: 'max_tokens',
        code: 400,
      },
      'too-long',
    ],
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

  it.each<[string, unknown, RegExp]>([
    ['without "error" around it', { object: 'error', message: 'old shape', code: 500 }, /old shape/],
    ['of the web framework', { detail: 'some detail' }, /some detail/],
    ['of its validation', { detail: [{ loc: ['body', 'n'], msg: 'too large' }] }, /too large/],
    ['of one word', { error: 'broken' }, /broken/],
    ['that is no JSON', '<html>bad gateway</html>', /bad gateway/],
  ])('reads an error body %s', async (_, body, message) => {
    const { url } = await serve((_request, _body, response) => json(response, body, 502));
    const failure = await failureOf(connect(url).complete(call));
    expect(failure).toMatchObject({ reason: 'http', status: 502 });
    expect(failure.message).toMatch(message);
  });

  it('knows an unknown model from an error body without "error" around it', async () => {
    const flat = { object: 'error', message: 'The model `run-v3` does not exist.', code: 404 };
    const { url } = await serve((_, __, response) => json(response, flat, 404));
    expect(await failureOf(connect(url).complete(call))).toMatchObject({ reason: 'unknown-model' });
  });

  it.each<[string, string, string, boolean]>([
    ['the text of its ids', 'ab', '8 9', false],
    ['another text', 'ac', 'ab', false],
    ['a text without the last word', 'a', 'ab', false],
    ['the same text', 'ab', 'ab', true],
    ['a kept space at the start', ' ab', 'ab', true],
    ['an unfinished character kept back with its token', 'a', 'ab\uFFFD', true],
    ['broken bytes in the middle', 'a\uFFFD\uFFFDb', 'a\uFFFDb', true],
    ['more than its ids', 'abc', 'ab\uFFFD', false],
  ])('with a local tokenizer: %s', async (_, text, decoded, fine) => {
    const { url } = await serve((_request, _body, response) => json(response, withChoice({ text })));
    const asked: number[][] = [];
    const decode = (ids: readonly number[]): string => {
      asked.push([...ids]);
      return decoded;
    };
    const done = createEndpoint({ baseUrl: url, deadlineMs: 10_000, maxConcurrent: 1, decode }).complete(
      call,
    );
    if (fine) expect((await done).text).toBe(text);
    else expect(await failureOf(done)).toMatchObject({ reason: 'invalid-answer' });
    // The end token has no text.
    expect(asked[0]).toEqual([8, 9]);
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
      }, 40);
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
