import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AssistantFailure } from './assistant-client.ts';
import { createChatModel } from './chat-model.ts';
import { createEmbedder } from './embedder.ts';
import { cachedModel } from './model-cache.ts';

const KEY = 'sk-secret-0123456789';
type Reply = (request: IncomingMessage, response: ServerResponse) => void;

/** A server that plays one reply a request, the last one for ever, and keeps what it was sent. */
let replies: Reply[] = [];
const seen: { body: Record<string, unknown>; key: string | undefined }[] = [];
let underWay = 0;
let most = 0;
const server = createServer(async (request, response) => {
  most = Math.max(most, ++underWay);
  response.on('close', () => underWay--);
  let text = '';
  for await (const chunk of request) text += chunk;
  seen.push({ body: JSON.parse(text), key: request.headers.authorization });
  const reply = replies.length > 1 ? replies.shift()! : replies[0]!;
  reply(request, response);
});
let url = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
const scratch = mkdtempSync(join(tmpdir(), 'lexpo-chat-'));
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(scratch, { recursive: true, force: true });
});

const json =
  (value: unknown, status = 200): Reply =>
  (_, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
const says = (content: unknown, finish_reason = 'stop'): Reply =>
  json({ choices: [{ index: 0, finish_reason, message: { role: 'assistant', content } }] });
const refuses = (status: number): Reply => json({ error: { message: `no, ${KEY}` } }, status);
const reset: Reply = (request) => request.socket.destroy();
const hang: Reply = () => {};
const garbage: Reply = (_, response) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"choices": [');

const open = (change = {}) =>
  createChatModel({
    url,
    model: 'm',
    apiKey: KEY,
    deadlineMs: 5_000,
    retries: 2,
    backoffMs: 1,
    concurrency: 4,
    ...change,
  });
const messages = [{ role: 'user' as const, content: '问' }];
const call = { maxTokens: 7, temperature: 0.5 };

/** Asks once; the text or the failure, and how many requests came. */
async function ask(script: Reply[], change = {}) {
  replies = script;
  seen.length = 0;
  const end = await open(change)
    .chat(messages, call)
    .catch((error: AssistantFailure) => error);
  return { end, requests: seen.length };
}

describe('a chat model', () => {
  it('sends model, messages and options, with the key, and gives the text', async () => {
    expect(await ask([says('答')])).toEqual({ end: '答', requests: 1 });
    expect(seen[0]).toEqual({
      body: { model: 'm', messages, max_tokens: 7, temperature: 0.5 },
      key: `Bearer ${KEY}`,
    });
    expect(open().name).toBe(`m at ${url}`);
    expect(open({ url: `${url}/v1/` }).name).toBe(`m at ${url}`);
  });

  it.each<[string, Reply]>([
    ['429', refuses(429)],
    ['500', refuses(500)],
    ['503', refuses(503)],
    ['a reset', reset],
  ])('tries %s again, and goes on when it heals', async (_, reply) => {
    expect(await ask([reply, says('答')])).toEqual({ end: '答', requests: 2 });
    const { end, requests } = await ask([reply]);
    expect(requests).toBe(3);
    expect((end as AssistantFailure).name).toBe('AssistantFailure');
  });

  it('waits as long as the server asks for, and no longer than a deadline', async () => {
    const busy =
      (headers: Record<string, string>): Reply =>
      (_, response) =>
        response
          .writeHead(429, { 'content-type': 'application/json', ...headers })
          .end('{"error":{"message":"busy"}}');
    const waited = async (headers: Record<string, string>, deadlineMs = 5_000): Promise<number> => {
      const before = performance.now();
      expect((await ask([busy(headers), says('答')], { deadlineMs })).end).toBe('答');
      return performance.now() - before;
    };
    expect(await waited({ 'retry-after': '1' })).toBeGreaterThan(990);
    const [date, later] = ['Tue, 01 Dec 2026 08:00:00 GMT', 'Tue, 01 Dec 2026 08:00:01 GMT'];
    expect(await waited({ date, 'retry-after': later })).toBeGreaterThan(990);
    // Ends at all: an hour is not waited for. Nonsense is no pause.
    await waited({ 'retry-after': '3600' }, 200);
    await waited({ 'retry-after': '99999999999999999999' }, 200);
    await waited({ 'retry-after': 'soon' });
    await waited({ 'retry-after': '-5' });
  });

  it.each<[string, Reply, string, string]>([
    ['400', refuses(400), 'http', 'status 400'],
    ['401', refuses(401), 'http', 'status 401'],
    ['404', refuses(404), 'http', 'status 404'],
    ['an empty text', says(' '), 'invalid-answer', 'is empty'],
    ['no text', says(null), 'invalid-answer', 'is empty'],
    ['a cut text', says('半', 'length'), 'invalid-answer', 'cut at its length limit'],
    ['a filtered text', says('x', 'content_filter'), 'invalid-answer', 'was filtered'],
    [
      'a refusal',
      json({ choices: [{ finish_reason: 'stop', message: { content: null, refusal: '不能回答' } }] }),
      'invalid-answer',
      'the model refused: 不能回答',
    ],
    ['no choice', json({ choices: [] }), 'invalid-answer', 'no choice'],
    ['broken JSON', garbage, 'invalid-answer', 'no answer that can be read'],
  ])('does not try %s again', async (_, reply, reason, text) => {
    const { end, requests } = await ask([reply]);
    expect(requests).toBe(1);
    expect(end).toMatchObject({ reason, message: expect.stringContaining(text) });
    expect((end as AssistantFailure).message).not.toContain(KEY);
  });

  it('gives up what hangs at its deadline', async () => {
    const { end } = await ask([hang], { deadlineMs: 100, retries: 1 });
    expect(end).toMatchObject({
      reason: 'deadline',
      message: expect.stringContaining('no answer within 100 ms'),
    });
    expect(seen).toHaveLength(2);
  });

  it('has at most so many calls under way', async () => {
    replies = [(request, response) => void sleep(20).then(() => says('答')(request, response))];
    most = 0;
    const model = open({ concurrency: 2 });
    await Promise.all(Array.from({ length: 8 }, () => model.chat(messages, call)));
    expect(most).toBe(2);
  });
});

describe('an embedder', () => {
  const embedder = (change = {}) =>
    createEmbedder({
      url,
      model: 'm',
      apiKey: KEY,
      deadlineMs: 5_000,
      retries: 1,
      backoffMs: 1,
      concurrency: 2,
      batch: 2,
      ...change,
    });
  const vectors = (...data: unknown[]): Reply => json({ data });

  it('asks in batches, and gives the vectors in the order of the texts', async () => {
    replies = [
      vectors({ index: 1, embedding: [0, 2] }, { index: 0, embedding: [1, 0] }),
      vectors({ index: 0, embedding: [3, 4] }),
    ];
    seen.length = 0;
    const all = await embedder({ concurrency: 1 }).embed(['a', 'b', 'c']);
    expect(all.map((vector) => [...vector])).toEqual([
      [1, 0],
      [0, 2],
      [3, 4],
    ]);
    expect(seen.map(({ body }) => body)).toEqual([
      { model: 'm', input: ['a', 'b'], encoding_format: 'float' },
      { model: 'm', input: ['c'], encoding_format: 'float' },
    ]);
    expect(await embedder().embed([])).toEqual([]);
  });

  it('vectors of different lengths in different batches are no answer', async () => {
    replies = [
      vectors({ index: 0, embedding: [1, 0] }, { index: 1, embedding: [0, 1] }),
      vectors({ index: 0, embedding: [1, 0, 0] }),
    ];
    await expect(embedder({ concurrency: 1 }).embed(['a', 'b', 'c'])).rejects.toMatchObject({
      reason: 'invalid-answer',
    });
  });

  it.each<[string, Reply]>([
    ['numbers beyond 32 bits', vectors({ index: 0, embedding: [1e300] }, { index: 1, embedding: [1] })],
    ['too few vectors', vectors({ index: 0, embedding: [1] })],
    ['one twice', vectors({ index: 0, embedding: [1] }, { index: 0, embedding: [1] })],
    ['different lengths', vectors({ index: 0, embedding: [1] }, { index: 1, embedding: [1, 2] })],
    ['no numbers', vectors({ index: 0, embedding: [null] }, { index: 1, embedding: [1] })],
    ['an empty vector', vectors({ index: 0, embedding: [] }, { index: 1, embedding: [] })],
  ])('%s are no answer', async (_, reply) => {
    replies = [reply];
    await expect(embedder().embed(['a', 'b'])).rejects.toMatchObject({ reason: 'invalid-answer' });
  });
});

describe('kept answers', () => {
  /** A model that counts, and its answers kept in a folder of their own. */
  function kept(name: string, answer: () => Promise<string>) {
    const counts = { asked: 0 };
    const told: string[] = [];
    const chat = {
      name: 'm',
      chat: () => {
        counts.asked++;
        return answer();
      },
    };
    const folder = join(scratch, name);
    return { counts, told, folder, again: () => cachedModel(chat, folder, (line) => told.push(line)) };
  }

  it('are asked for once: at the same time, later, and by another process', async () => {
    const { counts, again } = kept('once', async () => '答');
    const model = again();
    expect(await Promise.all([model.chat(messages, call), model.chat(messages, call)])).toEqual(['答', '答']);
    expect(await model.chat(messages, call)).toBe('答');
    expect(await again().chat(messages, call)).toBe('答');
    expect(counts.asked).toBe(1);
    for (const other of [
      { ...call, temperature: 0 },
      { ...call, maxTokens: 8 },
    ])
      await model.chat(messages, other);
    await model.chat([{ role: 'user', content: '另问' }], call);
    expect(counts.asked).toBe(4);
  });

  it('are never failures', async () => {
    let fails = true;
    const { counts, again, folder } = kept('fails', async () => {
      if (fails) throw new Error('down');
      return '答';
    });
    await expect(again().chat(messages, call)).rejects.toThrow('down');
    fails = false;
    expect(await again().chat(messages, call)).toBe('答');
    expect(counts.asked).toBe(2);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it('are never texts that cannot be read, and one that was kept is asked for again', async () => {
    const answers = ['稍后再试', '{"best":[1]}'];
    const { counts, again, folder } = kept('unread', async () => answers[Math.min(counts.asked - 1, 1)]!);
    const check = (text: string): void => void JSON.parse(text);
    await expect(again().chat(messages, { ...call, check })).rejects.toThrow('JSON');
    expect(existsSync(folder)).toBe(false);
    expect(await again().chat(messages, { ...call, check })).toBe('{"best":[1]}');
    expect(counts.asked).toBe(2);
    const [name] = readdirSync(folder);
    const path = join(folder, name!);
    writeFileSync(path, readFileSync(path, 'utf8').replace('{\\"best\\":[1]}', '稍后再试'));
    expect(await again().chat(messages, { ...call, check })).toBe('{"best":[1]}');
    expect(counts.asked).toBe(3);
  });

  it('that are damaged are told and asked for again', async () => {
    const { counts, told, again, folder } = kept('damaged', async () => '答');
    await again().chat(messages, call);
    const [name] = readdirSync(folder);
    writeFileSync(join(folder, name!), '{"model":');
    expect(await again().chat(messages, call)).toBe('答');
    expect(counts.asked).toBe(2);
    expect(told).toEqual([expect.stringContaining('is no kept answer: asked for again')]);
    expect(JSON.parse(readFileSync(join(folder, name!), 'utf8'))).toMatchObject({ model: 'm', text: '答' });
  });
});
