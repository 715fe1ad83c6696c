/** HTTP without a framework: bodies with a limit, JSON answers, errors in the protocol's shape. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../base/errors.ts';
import { ApiError, badRequest, errorBody } from './api-error.ts';

/** Names of this machine that nobody else can reach. */
export const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

export type Answer =
  | { kind: 'json'; body: object }
  | { kind: 'text'; body: string }
  | { kind: 'empty'; status: number };

/** The body as JSON. 400 unless it is JSON that says so, 413 above `limit` bytes. */
export async function readJsonBody(request: IncomingMessage, limit: number): Promise<unknown> {
  // A form or text/plain body could come from any web page without the browser asking first.
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') throw badRequest("Content-Type must be 'application/json'");
  const tooLarge = () => new ApiError(413, 'RequestTooLarge', `the body is larger than ${limit} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) throw tooLarge();
    chunks.push(chunk);
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch (error) {
    throw badRequest(`the body is not JSON: ${messageOf(error)}`);
  }
}

/** Compares digests, so that time says nothing about the key. */
export function checkKey(request: IncomingMessage, apiKey: string): void {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  const given = request.headers.authorization ?? '';
  if (!timingSafeEqual(digest(given), digest(`Bearer ${apiKey}`))) {
    throw new ApiError(401, 'AuthenticationError', 'Unauthorized: send the API key as a Bearer token');
  }
}

/**
 * Without a key the server is for this machine only. A web page whose name was made to resolve to loopback
 * would still call it by its own name (DNS rebinding).
 */
export function checkLocalHost(request: IncomingMessage): void {
  const host = request.headers.host ?? '';
  const name = host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  if (!LOOPBACK.has(name.toLowerCase())) {
    throw new ApiError(
      403,
      'PermissionDenied',
      `the server is not called '${name}': it is local, without a key`,
    );
  }
}

export function sendAnswer(response: ServerResponse, answer: Answer): void {
  switch (answer.kind) {
    case 'json':
      send(response, 200, 'application/json', JSON.stringify(answer.body));
      break;
    case 'text':
      send(response, 200, 'text/plain; charset=utf-8', answer.body);
      break;
    case 'empty':
      send(response, answer.status, null, '');
      break;
  }
}

export function sendError(response: ServerResponse, error: ApiError): void {
  // The rest of a refused body is not read, so the connection cannot carry another request.
  if (error.status === 413) response.setHeader('connection', 'close');
  if (error.status === 429) response.setHeader('retry-after', '1');
  send(response, error.status, 'application/json', JSON.stringify(errorBody(error)));
}

function send(response: ServerResponse, status: number, type: string | null, body: string): void {
  if (response.destroyed || response.headersSent) return;
  response.statusCode = status;
  if (type) response.setHeader('content-type', type);
  response.setHeader('content-length', Buffer.byteLength(body));
  response.end(body);
}
