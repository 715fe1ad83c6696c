/** For the tests of the endpoint client: a server that answers as it is told. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect } from 'vitest';
import { type CompletionCall, createEndpoint, type Endpoint, RolloutFailure } from './endpoint.ts';

type Handler = (request: IncomingMessage, body: Record<string, unknown>, response: ServerResponse) => void;
/** Closed after each test. */
export const servers: Server[] = [];

/** A server of one handler; what it was sent is in `seen`. */
export async function serve(handler: Handler) {
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

export const connect = (baseUrl: string, deadlineMs = 10_000): Endpoint =>
  createEndpoint({ baseUrl, apiKey: 'k', deadlineMs, maxConcurrent: 8 });

export const json = (response: ServerResponse, body: unknown, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
};

export const call: CompletionCall = {
  model: 'run-v3',
  promptIds: [5, 6, 7],
  maxTokens: 4,
  temperature: 0.8,
  seed: 12,
  stopTokenIds: [1],
  cacheSalt: 'v3',
};
export const choice = {
  index: 0,
  text: 'ab',
  finish_reason: 'stop',
  logprobs: { token_logprobs: [-0.5, -1.5, -0.25], tokens: [], text_offset: [], top_logprobs: [] },
  token_ids: [8, 9, 1],
  prompt_token_ids: [5, 6, 7],
  prompt_logprobs: [null, { 6: { logprob: -0.75 } }, { 7: { logprob: -2 } }],
};
export const answer = {
  id: 'x',
  object: 'text_completion',
  model: 'run-v3',
  choices: [choice],
  usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
};
export const withChoice = (more: object) => ({ ...answer, choices: [{ ...choice, ...more }] });
export const withLogprobs = (values: unknown[]) => withChoice({ logprobs: { token_logprobs: values } });

export async function failureOf(promise: Promise<unknown>): Promise<RolloutFailure> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RolloutFailure);
  return error as RolloutFailure;
}
