/**
 * A helper model (teacher, judge, critic, condenser, reranker) behind any OpenAI-compatible endpoint: one chat
 * completion a call, whole and checked. What fails is an error with its reason; nothing is made up in its place.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { APIConnectionError, APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai';
import { messageOf } from '../base/errors.ts';
import type { ChatModel } from '../env/lawyer/types.ts';
import { keyHider } from './hide-key.ts';
import { createHttpFetch } from './http-fetch.ts';
import { createLimit } from './limit.ts';
import { serverRoot } from './server-root.ts';

export interface ChatModelOptions {
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

export type ChatFailureReason = 'connection' | 'deadline' | 'http' | 'overloaded' | 'invalid-answer';

/** Why a helper model gave nothing usable. */
export class ChatFailure extends Error {
  override name = 'ChatFailure';
  constructor(
    readonly reason: ChatFailureReason,
    message: string,
    /** The HTTP status, where there was an answer. */
    readonly status?: number,
  ) {
    super(message);
  }
}

const BACKOFF_MS = 500;

/**
 * The model. A lost connection, a deadline, 408, 409, 429 and 5xx are tried again with doubled pauses; any other
 * status, and an answer that is empty, cut or filtered, are not: the same call would give the same.
 */
export function createChatModel(options: ChatModelOptions): ChatModel {
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

  async function once(
    messages: Parameters<ChatModel['chat']>[0],
    { maxTokens, temperature }: Parameters<ChatModel['chat']>[1],
  ): Promise<string> {
    const signal = AbortSignal.timeout(deadlineMs);
    try {
      const answer: unknown = await client.chat.completions.create(
        {
          model,
          messages: messages.map(({ role, content }) => ({ role, content })),
          max_tokens: maxTokens,
          temperature,
        },
        { signal },
      );
      return readAnswer(answer);
    } catch (error) {
      throw failureOf(error, name, deadlineMs, hide);
    }
  }

  return {
    name,
    chat: (messages, call) =>
      limit(async () => {
        for (let attempt = 0; ; attempt++) {
          try {
            return await once(messages, call);
          } catch (error) {
            if (!(error instanceof ChatFailure) || !mayHeal(error) || attempt >= retries) throw error;
            await sleep(backoffMs * 2 ** attempt);
          }
        }
      }),
  };
}

const mayHeal = ({ reason }: ChatFailure): boolean =>
  reason === 'connection' || reason === 'deadline' || reason === 'overloaded';

function readAnswer(answer: unknown): string {
  const invalid = (what: string): never => {
    throw new ChatFailure('invalid-answer', what);
  };
  const { choices } = (answer ?? {}) as { choices?: unknown };
  const [first] = Array.isArray(choices) ? (choices as unknown[]) : [];
  if (!first || typeof first !== 'object') return invalid('the answer has no choice');
  const { finish_reason: end, message } = first as {
    finish_reason?: unknown;
    message?: { content?: unknown };
  };
  const text = message?.content;
  if (end === 'length') return invalid('the answer was cut at its length limit: raise maxTokens');
  if (end === 'content_filter') return invalid('the answer was filtered');
  if (typeof text !== 'string' || text.trim() === '') return invalid('the answer is empty');
  return text;
}

function failureOf(
  error: unknown,
  name: string,
  deadlineMs: number,
  hide: (text: string) => string,
): ChatFailure {
  const told = (reason: ChatFailureReason, what: string, status?: number): ChatFailure =>
    new ChatFailure(reason, `${name}: ${hide(what)}`, status);
  if (error instanceof ChatFailure) return told(error.reason, error.message, error.status);
  if (error instanceof APIConnectionTimeoutError || error instanceof APIUserAbortError)
    return told('deadline', `no answer within ${deadlineMs} ms`);
  if (error instanceof APIConnectionError) return told('connection', messageOf(error.cause ?? error));
  if (error instanceof APIError && typeof error.status === 'number') {
    const { status } = error;
    const heals = status === 408 || status === 409 || status === 429 || status >= 500;
    return told(heals ? 'overloaded' : 'http', `status ${status}: ${error.message}`, status);
  }
  return told('invalid-answer', `no answer that can be read (${messageOf(error)})`);
}
