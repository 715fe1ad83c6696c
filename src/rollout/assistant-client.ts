/**
 * What all helper models share: a client of an OpenAI-compatible endpoint with bounded concurrency, a deadline for each
 * attempt, retries of what may heal, and failures with their reason and without the key.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { APIConnectionError, APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai';
import { messageOf } from '../base/errors.ts';
import { keyHider } from './hide-key.ts';
import { createHttpFetch, EndlessAnswer } from './http-fetch.ts';
import { createLimit } from './limit.ts';
import { serverRoot } from './server-root.ts';

export interface AssistantOptions {
  /** With or without the trailing `/v1`. */
  url: string;
  model: string;
  apiKey?: string | undefined;
  /** Of one attempt, milliseconds. */
  deadlineMs: number;
  /** Attempts after the first, of what may heal. */
  retries: number;
  /** Before the first of them, milliseconds; doubled each time. */
  backoffMs?: number;
  /** Calls under way at once. */
  concurrency: number;
}

export type AssistantFailureReason = 'connection' | 'deadline' | 'http' | 'overloaded' | 'invalid-answer';

/** Why a helper model gave nothing usable. */
export class AssistantFailure extends Error {
  override name = 'AssistantFailure';
  constructor(
    readonly reason: AssistantFailureReason,
    message: string,
    /** The HTTP status, where there was an answer. */
    readonly status?: number,
  ) {
    super(message);
  }
}

export interface AssistantClient {
  /** `<model> at <address>`. */
  name: string;
  /**
   * One call. A lost connection, a deadline, 408, 409, 429 and 5xx are tried again with doubled pauses, or after as
   * long as the server asks for (Retry-After, at most `deadlineMs`); any other status, and what `ask` finds wrong with
   * an answer (`invalidAnswer`), are not: the same call would give the same.
   */
  call<T>(ask: (client: OpenAI, signal: AbortSignal) => Promise<T>): Promise<T>;
}

/** To be thrown by `ask` for an answer that cannot be used. */
export const invalidAnswer = (what: string): AssistantFailure => new AssistantFailure('invalid-answer', what);

const BACKOFF_MS = 500;

export function createAssistantClient(options: AssistantOptions): AssistantClient {
  const { model, deadlineMs, retries, concurrency, backoffMs = BACKOFF_MS } = options;
  const hide = keyHider(options.apiKey);
  const client = new OpenAI({
    baseURL: `${serverRoot(options.url)}/v1`,
    // The SDK wants one; servers without keys do not look at it.
    apiKey: options.apiKey ?? 'none',
    maxRetries: 0,
    timeout: deadlineMs,
    fetch: createHttpFetch(concurrency),
  });
  const name = `${model} at ${serverRoot(options.url)}`;
  const limit = createLimit(concurrency);
  return {
    name,
    call: (ask) =>
      limit(async () => {
        for (let attempt = 0; ; attempt++) {
          try {
            return await ask(client, AbortSignal.timeout(deadlineMs));
          } catch (error) {
            const failure = failureOf(error, name, deadlineMs, hide);
            if (!mayHeal(failure) || attempt >= retries) throw failure;
            await sleep(Math.max(backoffMs * 2 ** attempt, Math.min(askedPause(error), deadlineMs)));
          }
        }
      }),
  };
}

/**
 * Milliseconds that an answer asks to wait before the next try: Retry-After in seconds, or as a date, which is held
 * against the server's own (RFC 9110, 10.2.3); 0 where it asks for none.
 */
function askedPause(error: unknown): number {
  const headers = error instanceof APIError ? error.headers : undefined;
  const after = headers?.get('retry-after')?.trim() ?? '';
  const ms = /^\d+$/.test(after)
    ? Number(after) * 1000
    : Date.parse(after) - Date.parse(headers?.get('date') ?? '');
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

const mayHeal = ({ reason }: AssistantFailure): boolean =>
  reason === 'connection' || reason === 'deadline' || reason === 'overloaded';

function failureOf(
  error: unknown,
  name: string,
  deadlineMs: number,
  hide: (text: string) => string,
): AssistantFailure {
  const told = (reason: AssistantFailureReason, what: string, status?: number): AssistantFailure =>
    new AssistantFailure(reason, `${name}: ${hide(what)}`, status);
  if (error instanceof AssistantFailure) return told(error.reason, error.message, error.status);
  if (error instanceof APIConnectionTimeoutError || error instanceof APIUserAbortError)
    return told('deadline', `no answer within ${deadlineMs} ms`);
  if (error instanceof APIConnectionError && error.cause instanceof EndlessAnswer)
    return told('invalid-answer', error.cause.message);
  if (error instanceof APIConnectionError) return told('connection', messageOf(error.cause ?? error));
  if (error instanceof APIError && typeof error.status === 'number') {
    const { status } = error;
    const heals = status === 408 || status === 409 || status === 429 || status >= 500;
    return told(heals ? 'overloaded' : 'http', `status ${status}: ${error.message}`, status);
  }
  return told('invalid-answer', `no answer that can be read (${messageOf(error)})`);
}
