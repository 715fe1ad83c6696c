/** What the server refuses, over real HTTP: status and field. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VOCABULARY } from '../../test/serve/fake-engine.ts';
import { ask, type Bench, complete, createBench, post } from '../../test/serve/harness.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import type { PolicyServer } from './server.ts';

let bench: Bench;
let server: PolicyServer;
beforeAll(async () => {
  bench = createBench();
  server = await bench.start();
});
afterAll(() => bench.close());

describe('refusals', () => {
  const long = Array.from({ length: 4095 }, () => 5);
  it.each<[string, object | string, number, string | null]>([
    ['top_p of 0', ask({ top_p: 0 }), 400, 'top_p'],
    ['top_p above 1', ask({ top_p: 1.5 }), 400, 'top_p'],
    ['top_k below −1', ask({ top_k: -2 }), 400, 'top_k'],
    ['a fractional top_k', ask({ top_k: 1.5 }), 400, 'top_k'],
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
    const answer = await post(server, '/v1/completions', body);
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
    expect((await complete(server, neutral)).status).toBe(200);
  });

  it('give the texts clients match on', async () => {
    const unknown = await complete(server, { model: 'x' });
    expect(unknown.json.error).toEqual({
      message: 'The model `x` does not exist.',
      type: 'NotFoundError',
      param: 'model',
      code: 404,
    });
    expect((await complete(server, { max_tokens: 5000 })).json.error.message).toMatch(
      /maximum context length/,
    );
  });

  it('come before a huge text is tokenised, and never to a text that fits', async () => {
    const { longestToken } = loadTokenizer(bench.modelFolder);
    const refused = async (prompt: string | string[]): Promise<string> =>
      (await complete(server, { prompt, max_tokens: 1 })).json.error?.message ?? 'accepted';
    // The number says which check it was: of characters, or of tokens. The context is 4096.
    const huge = 'a'.repeat(4096 * longestToken);
    expect(await refused(huge)).toMatch(/the prompt has at least 4096 input tokens/);
    expect(await refused(['a', huge])).toMatch(/at least 4096/);
    expect(await refused('a'.repeat(4095 * longestToken))).toMatch(/has \d+ input tokens/);
    expect(await refused('a'.repeat(4095))).toBe('accepted');
  });

  it('know routes, methods and media types', async () => {
    expect((await post(server, '/v1/chat/completions', {})).status).toBe(404);
    expect((await fetch(`${server.url}/v1/completions`)).status).toBe(405);
    const form = await post(server, '/v1/completions', ask(), { 'content-type': 'text/plain' });
    expect(form.status).toBe(400);
    const suffix = await complete(server, { suffix: 'x' });
    expect(suffix.json.error.message).toBe('suffix: must be "": suffix is not supported');
  });

  it('take bytes that are no UTF-8 for a mistake, never for a replacement character', async () => {
    const body = Buffer.from(JSON.stringify(ask({ prompt: 'x\u00ff' })), 'latin1');
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers, body });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toMatch(/not JSON.*utf-8/i);
  });

  it('of what exceeds body and queue limits', async () => {
    const small = await bench.start({ maxBodyBytes: 1000, maxQueued: 4 });
    expect((await complete(small, { prompt: Array(600).fill(5) })).status).toBe(413);
    const { status, json } = await complete(small, { n: 5 });
    expect([status, json.error.type]).toEqual([429, 'TooManyRequests']);
    expect((await complete(small, { n: 4 })).status).toBe(200);
  });
});
