import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAssistantClient } from './assistant-client.ts';
import { createEndpoint } from './endpoint.ts';
import { BrokenAnswer, createHttpFetch, EndlessAnswer } from './http-fetch.ts';

const MAX = 1 << 20;

/** Bytes sent of the endless answer. */
let sent = 0;
let closed: Promise<unknown> = Promise.resolve();
let calls = 0;
const pour = (response: ServerResponse): void => {
  const chunk = Buffer.alloc(1 << 20, 0x20);
  const more = (): void => {
    while (!response.destroyed) {
      sent += chunk.length;
      if (!response.write(chunk)) return void response.once('drain', more);
    }
  };
  more();
};
const server = createServer((request, response) => {
  calls++;
  if (request.url === '/exact') return void response.end(Buffer.alloc(MAX));
  if (request.url === '/reset') return void response.write('half', () => response.destroy());
  response.writeHead(200, { 'content-type': 'application/json' });
  closed = once(response, 'close');
  pour(response);
});
let url = '';
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

describe('an answer', () => {
  it('of as many bytes as are allowed is read whole', async () => {
    const answer = await createHttpFetch(1, MAX)(`${url}/exact`);
    expect((await answer.arrayBuffer()).byteLength).toBe(MAX);
  });
  it('that never ends is given up, and its connection closed', async () => {
    sent = 0;
    await expect(createHttpFetch(1, MAX)(`${url}/endless`)).rejects.toThrow(EndlessAnswer);
    // What the sockets of both sides still took: far from what a server that is read on and on would send.
    expect(sent).toBeLessThan(64 * MAX);
    await closed;
  });
  it('that breaks off is told as such', async () => {
    await expect(createHttpFetch(1, MAX)(`${url}/reset`)).rejects.toThrow(BrokenAnswer);
  });
});

describe('an endless answer is an invalid one, and is not asked for again', () => {
  it('of a helper model', async () => {
    const client = createAssistantClient({ url, model: 'm', deadlineMs: 60_000, retries: 2, concurrency: 1 });
    calls = 0;
    const ask = client.call(({ models }, signal) => models.retrieve('m', { signal }));
    await expect(ask).rejects.toMatchObject({ reason: 'invalid-answer' });
    expect(calls).toBe(1);
  });
  it('of the endpoint', async () => {
    const endpoint = createEndpoint({ baseUrl: url, deadlineMs: 60_000, maxConcurrent: 1 });
    calls = 0;
    await expect(endpoint.listModels()).rejects.toMatchObject({ reason: 'invalid-answer' });
    expect(calls).toBe(1);
  });
});
