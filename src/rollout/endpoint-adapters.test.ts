/** Proof and adapters at an endpoint: log-probabilities of a prompt, loading, unloading, listing. */
import { describe, expect, it } from 'vitest';
import { createEndpoint } from './endpoint.ts';
import { answer, call, connect, failureOf, json, serve, servers, withChoice } from './test-support.ts';

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

  it('have no routes: says which variable the server lacks', async () => {
    const { url } = await serve((_, __, response) => json(response, { detail: 'Not Found' }, 404));
    for (const asked of [connect(url).loadAdapter('a', '/a'), connect(url).unloadAdapter('a')])
      await expect(asked).rejects.toThrow(/VLLM_ALLOW_RUNTIME_LORA_UPDATING/);
  });

  it('not found where the server looks for it is another 404', async () => {
    const error = { message: 'No adapter found for /a', type: 'NotFoundError', code: 404 };
    const { url } = await serve((_, __, response) => json(response, { error }, 404));
    expect(await failureOf(connect(url).loadAdapter('a', '/a'))).toMatchObject({
      reason: 'http',
      status: 404,
    });
  });

  it('have a deadline of their own to load', async () => {
    const { url } = await serve((_, __, response) => setTimeout(() => response.end('Success'), 150));
    const options = { baseUrl: url, deadlineMs: 50, maxConcurrent: 1 };
    await createEndpoint({ ...options, loadDeadlineMs: 10_000 }).loadAdapter('a', '/a');
    expect((await failureOf(createEndpoint(options).loadAdapter('a', '/a'))).reason).toBe('deadline');
  });

  it('are listed with root', async () => {
    const { url } = await serve((_, __, response) => json(response, listed('/adapters/a')));
    expect(await connect(url).listModels()).toEqual([
      { id: 'base', root: '/m', parent: null, maxModelLen: 64 },
      { id: 'a', root: '/adapters/a', parent: 'base', maxModelLen: null },
    ]);
  });
});

describe('what is asked beside samples', () => {
  it('health, version and token ids have no /v1 before them', async () => {
    const { url, seen } = await serve((request, _, response) => {
      if (request.url === '/health') response.end();
      else if (request.url === '/version') json(response, { version: '0.11.0' });
      else json(response, { count: 2, max_model_len: 9, tokens: [4, 5] });
    });
    const endpoint = connect(`${url}/v1`);
    await endpoint.health();
    expect(await endpoint.version()).toBe('0.11.0');
    expect(await endpoint.tokenize('base', 'x')).toEqual([4, 5]);
    expect(seen.map(({ path }) => path)).toEqual(['/health', '/version', '/tokenize']);
    expect(seen[2]!.body).toEqual({ model: 'base', prompt: 'x', add_special_tokens: false });
  });

  it('does not wait for samples', async () => {
    const { url } = await serve((request, _, response) => {
      if (request.url === '/health') response.end();
    });
    const endpoint = connect(url, 2_000);
    const samples = Array.from({ length: 20 }, () => endpoint.complete(call).catch(() => null));
    await endpoint.health(1_000);
    for (const server of servers) server.closeAllConnections();
    await Promise.all(samples);
  });

  it('a dead engine is not healthy', async () => {
    const { url } = await serve((_, __, response) => {
      response.statusCode = 503;
      response.end();
    });
    expect(await failureOf(connect(url).health())).toMatchObject({ reason: 'http', status: 503 });
  });
});
