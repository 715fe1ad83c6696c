/** The server's life: faults, death, keys, start and end; and its small routes. */
import { existsSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FAULT } from '../../test/serve/fake-engine.ts';
import {
  ask,
  type Bench,
  complete,
  createBench,
  type Json,
  load,
  post,
  until,
} from '../../test/serve/harness.ts';
import { UserError } from '../base/errors.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import type { PolicyServer, ServerOptions } from './server.ts';

let bench: Bench;
let server: PolicyServer;
beforeAll(async () => {
  bench = createBench();
  server = await bench.start();
});
afterAll(() => bench.close());

describe('trouble', () => {
  it('of a client that leaves: its row is freed long before its last token', async () => {
    const own = await bench.start();
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
    expect((await complete(own, {})).status).toBe(200);
  });

  it('in the model is a 500 that says so, and the next request works', async () => {
    for (const [token, message] of [
      [FAULT.stepThrows, /injected step fault/],
      [FAULT.prefillThrows, /injected prefill fault/],
      [FAULT.nan, /not finite/],
    ] as const) {
      const { status, json } = await complete(server, { prompt: [token, 5], ignore_eos: true });
      expect([status, json.error.type]).toEqual([500, 'InternalServerError']);
      expect(json.error.message).toMatch(message);
    }
    expect((await complete(server)).status).toBe(200);
  });

  it('at its end: the calculation under way is finished, the request is failed', async () => {
    // Terminating a thread within onnxruntime's native code aborts the whole process.
    const mark = join(bench.folder, 'slow');
    process.env.LEXPO_SLOW_MARK = mark;
    const own = await bench.start();
    const request = complete(own, { prompt: [FAULT.slow] });
    await until(async () => existsSync(`${mark}-begun`));
    await own.close();
    expect(existsSync(`${mark}-done`)).toBe(true);
    expect((await request).status).toBe(503);
  });

  it('when the engine dies: requests under way and later ones get 503, health too', async () => {
    const own = await bench.start();
    const health = async () => (await fetch(`${own.url}/health`)).status;
    expect(await health()).toBe(200);
    const inFlight = complete(own, { max_tokens: 4000, ignore_eos: true });
    await until(async () => (await own.stats()).running === 1);
    const killer = await complete(own, { prompt: [FAULT.dies] });
    for (const { status, json } of [killer, await inFlight, await complete(own, {})]) {
      expect([status, json.error.type]).toEqual([503, 'ServiceUnavailable']);
      expect(json.error.message).toMatch(/the engine is dead: .*code 7/);
    }
    expect((await load(own, 'run-v1', join(bench.adapterRoot, 'run-v1'))).status).toBe(503);
    expect(await health()).toBe(503);
  });

  it('at the start is a UserError: taken port, open bind without a key, no such folders', async () => {
    const wrong = async (options: Partial<ServerOptions>) => {
      const error = await bench.start(options).then(
        () => null,
        (thrown) => thrown,
      );
      expect(error).toBeInstanceOf(UserError);
      return error.message as string;
    };
    expect(await wrong({ port: server.port })).toMatch(new RegExp(`port ${server.port} is taken`));
    expect(await wrong({ host: '0.0.0.0' })).toMatch(/API key/);
    expect(await wrong({ adapterRoot: join(bench.folder, 'nowhere') })).toMatch(/nowhere/);
    expect(await wrong({ modelFolder: join(bench.folder, 'nowhere') })).toMatch(/nowhere/);
  });

  it('with the key: 401 without it everywhere but at the health check', async () => {
    const own = await bench.start({ apiKey: 'secret' });
    expect((await complete(own, {})).status).toBe(401);
    expect((await post(own, '/tokenize', { prompt: 'a' })).status).toBe(401);
    expect((await fetch(`${own.url}/health`)).status).toBe(200);
    const wrong = await post(own, '/v1/completions', ask(), { authorization: 'Bearer other' });
    expect(wrong.status).toBe(401);
    const right = await post(own, '/v1/completions', ask(), { authorization: 'Bearer secret' });
    expect(right.status).toBe(200);
  });
});

it('without a key answers only under a name of loopback', async () => {
  const statusFor = (host: string) =>
    new Promise((resolve) => {
      get(`${server.url}/version`, { headers: { host } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
    });
  for (const host of ['localhost:80', '127.0.0.1', '[::1]:9']) expect(await statusFor(host)).toBe(200);
  for (const host of ['evil.example', 'localhost.evil.example:80']) expect(await statusFor(host)).toBe(403);
});

describe('small routes', () => {
  it('tokenize text and messages', async () => {
    const tokenizer = loadTokenizer(bench.modelFolder);
    const text = await post(server, '/tokenize', { prompt: 'ab', return_token_strs: true });
    const tokens = tokenizer.encodeMarkup('ab');
    expect(text.json).toEqual({ count: tokens.length, max_model_len: 4096, tokens, token_strs: ['a', 'b'] });
    const chat = await post(server, '/tokenize', { messages: [{ role: 'user', content: 'ab' }] });
    expect(chat.json.count).toBeGreaterThan(tokens.length);
    expect((await post(server, '/tokenize', {})).status).toBe(400);
  });

  it('tell the version', async () => {
    const answer = (await (await fetch(`${server.url}/version`)).json()) as Json;
    expect(answer.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
