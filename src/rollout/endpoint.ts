/** The client of a policy endpoint: `lexpo serve` or vLLM, by the OpenAI protocol with token ids. */
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, {
  APIConnectionError,
  APIConnectionTimeoutError,
  APIError,
  APIUserAbortError,
  RateLimitError,
} from 'openai';
import { messageOf, UserError } from '../base/errors.ts';
import type { PolicyOutput } from '../env/types.ts';
import {
  readCompletion,
  readModels,
  readPromptLogprobs,
  readTokenIds,
  readVersion,
} from './endpoint-answer.ts';
import { keyHider } from './hide-key.ts';
import { BrokenAnswer, createHttpFetch, EndlessAnswer } from './http-fetch.ts';
import { createLimit } from './limit.ts';
import { RolloutFailure } from './rollout-failure.ts';
import { serverRoot } from './server-root.ts';

export { type FailureReason, RolloutFailure } from './rollout-failure.ts';

export interface EndpointOptions {
  /** With or without the trailing `/v1`. */
  baseUrl: string;
  apiKey?: string | undefined;
  /** Deadline of one call from its dispatch, retries included, milliseconds. */
  deadlineMs: number;
  /** Deadline of one load of an adapter; default: `deadlineMs`. */
  loadDeadlineMs?: number;
  /** Samples under way at once; more wait their turn, which comes: every call before them has a deadline. */
  maxConcurrent: number;
  /** The text of output ids, special tokens left out, by the local tokenizer; default: the text is taken as it comes. */
  decode?: (ids: readonly number[]) => string;
}

export interface CompletionCall {
  /** The base model's id or an adapter's name: always named, never defaulted. */
  model: string;
  promptIds: number[];
  maxTokens: number;
  /** 0 is greedy. */
  temperature: number;
  /** The share and the number of likely tokens that are sampled from; default 1 and 0: all of them. */
  topP?: number;
  topK?: number;
  seed: number;
  stopTokenIds: number[];
  cacheSalt?: string;
  /** Gives the call up. */
  signal?: AbortSignal;
}

export interface ModelCard {
  id: string;
  /** The folder that is live under this id. */
  root: string | null;
  /** Of an adapter: the id of the base model. Null for the base model itself. */
  parent: string | null;
  /** Tokens of prompt and output together; null where the card does not say (an adapter's does not). */
  maxModelLen: number | null;
}

/**
 * The client of one server. Every method throws a RolloutFailure when it gives nothing usable. Samples wait
 * for one another (`maxConcurrent`); whatever else is asked does not wait for samples.
 */
export interface Endpoint {
  /**
   * One sample, checked: it comes from the asked model, has the sent prompt, one log-probability a token, and
   * the text that its ids stand for. A lost connection and a full queue are tried again: the same seed samples
   * the same distribution.
   */
  complete(call: CompletionCall): Promise<PolicyOutput & { model: string }>;
  /** Natural log-probabilities of `ids[1..]` given what precedes each, at temperature 1 `[ids.length − 1]`. */
  promptLogprobs(model: string, ids: number[]): Promise<number[]>;
  /**
   * Loads the adapter in folder `path` (absolute, as the server sees it) under `name`; already loaded from
   * there counts as done. UserError when the server has no such route.
   */
  loadAdapter(name: string, path: string): Promise<void>;
  unloadAdapter(name: string): Promise<void>;
  listModels(): Promise<ModelCard[]>;
  /** Resolves when the server says that it lives, within `withinMs` (default: the deadline of a call). */
  health(withinMs?: number): Promise<void>;
  /** The server's version as it tells it. */
  version(): Promise<string>;
  /** Ids of `text` by the server's tokenizer, without the token that starts a text. */
  tokenize(model: string, text: string): Promise<number[]>;
}

/** Fields of vLLM's that the OpenAI types do not know. There is no `extra_body` in JavaScript. */
type CompletionBody = OpenAI.Completions.CompletionCreateParamsNonStreaming & {
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  stop_token_ids: number[];
  ignore_eos: boolean;
  min_tokens: number;
  skip_special_tokens: boolean;
  include_stop_str_in_output: boolean;
  return_token_ids: boolean;
  prompt_logprobs?: number;
  cache_salt?: string;
};

const CONNECTION_RETRIES = 2;

/** Every sampling parameter is named: an unset one would come from the model's generation_config.json. */
function completionBody(call: CompletionCall): CompletionBody {
  return {
    model: call.model,
    prompt: call.promptIds,
    max_tokens: call.maxTokens,
    n: 1,
    seed: call.seed,
    temperature: call.temperature,
    top_p: call.topP ?? 1,
    top_k: call.topK ?? 0,
    min_p: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    stop_token_ids: call.stopTokenIds,
    ignore_eos: false,
    min_tokens: 0,
    skip_special_tokens: true,
    include_stop_str_in_output: false,
    echo: false,
    logprobs: 0,
    return_token_ids: true,
    stream: false,
    ...(call.cacheSalt ? { cache_salt: call.cacheSalt } : {}),
  };
}

/** Connections beside those of the samples, so that a health check or a load never waits for one. */
const CONTROL_SOCKETS = 8;

export function createEndpoint(options: EndpointOptions): Endpoint {
  const { deadlineMs, loadDeadlineMs = deadlineMs } = options;
  const root = serverRoot(options.baseUrl);
  const client = new OpenAI({
    baseURL: `${root}/v1`,
    // The SDK insists on a key; a server without one ignores it.
    apiKey: options.apiKey ?? 'EMPTY',
    organization: null,
    project: null,
    fetch: createHttpFetch(options.maxConcurrent + CONTROL_SOCKETS),
    timeout: Math.max(deadlineMs, loadDeadlineMs),
    maxRetries: 0,
  });
  const limit = createLimit(options.maxConcurrent);
  const hide = keyHider(options.apiKey);

  /** One call within its deadline; failures become RolloutFailures. */
  async function call<T>(
    withinMs: number,
    run: (signal: AbortSignal) => Promise<T>,
    given?: AbortSignal,
  ): Promise<T> {
    const late = AbortSignal.timeout(withinMs);
    const signal = given ? AbortSignal.any([late, given]) : late;
    try {
      return await run(signal);
    } catch (error) {
      if (given?.aborted) throw new RolloutFailure('cancelled', 'the call was given up');
      throw asFailure(error, signal, withinMs, hide);
    }
  }

  async function complete(body: CompletionBody, signal: AbortSignal): Promise<unknown> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await client.completions.create(body, { signal });
      } catch (error) {
        if (!mayRetry(error, attempt)) throw error;
        // When the deadline comes during the wait, the error that led to it is the one to tell.
        await sleep(Math.min(2_000, 50 * 2 ** attempt), undefined, { signal }).catch(() => {
          throw error;
        });
      }
    }
  }

  async function listModels(signal: AbortSignal): Promise<ModelCard[]> {
    return readModels(await client.get('/models', { signal }));
  }

  /** A change of adapters. The routes are absent from a server that was not told to have them. */
  async function changeAdapters(route: string, body: object, signal: AbortSignal): Promise<void> {
    try {
      await client.post(route, { body, signal });
    } catch (error) {
      if (error instanceof APIError && error.status === 404 && /^(404 )?Not Found$/.test(error.message))
        throw new UserError(
          'takes no adapters while it runs: it has no route for them',
          root,
          'start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment, and --enable-lora',
        );
      throw error;
    }
  }

  return {
    complete: (asked) =>
      limit(() =>
        call(
          deadlineMs,
          async (signal) =>
            readCompletion(await complete(completionBody(asked), signal), asked, options.decode),
          asked.signal,
        ),
      ),
    promptLogprobs: (model, ids) =>
      call(deadlineMs, async (signal) => {
        const ask = { model, promptIds: ids, maxTokens: 1, temperature: 1, seed: 0, stopTokenIds: [] };
        const body = { ...completionBody(ask), prompt_logprobs: 0 };
        return readPromptLogprobs(await complete(body, signal), model, ids);
      }),
    // Loading is not idempotent: it is never sent twice. After a lost answer the caller asks again, and
    // "already loaded" is success when the listed folder is the right one.
    loadAdapter: (name, path) =>
      call(loadDeadlineMs, async (signal) => {
        try {
          await changeAdapters('/load_lora_adapter', { lora_name: name, lora_path: path }, signal);
        } catch (error) {
          if (!(error instanceof APIError) || !/already been loaded/.test(error.message)) throw error;
          const card = (await listModels(signal)).find(({ id }) => id === name);
          if (card?.root !== path) throw error;
        }
      }),
    unloadAdapter: (name) =>
      call(deadlineMs, (signal) => changeAdapters('/unload_lora_adapter', { lora_name: name }, signal)),
    listModels: () => call(deadlineMs, listModels),
    health: (withinMs = deadlineMs) =>
      call(withinMs, async (signal) => {
        await client.get(`${root}/health`, { signal });
      }),
    version: () =>
      call(deadlineMs, async (signal) => readVersion(await client.get(`${root}/version`, { signal }))),
    tokenize: (model, text) =>
      call(deadlineMs, async (signal) => {
        const body = { model, prompt: text, add_special_tokens: false };
        return readTokenIds(await client.post(`${root}/tokenize`, { body, signal }));
      }),
  };
}

/** Nothing was answered yet, or the server said that it took nothing in. */
function mayRetry(error: unknown, attempt: number): boolean {
  if (error instanceof RateLimitError) return true;
  if (!(error instanceof APIConnectionError) || error instanceof APIConnectionTimeoutError) return false;
  return (
    attempt < CONNECTION_RETRIES &&
    !(error.cause instanceof BrokenAnswer || error.cause instanceof EndlessAnswer)
  );
}

type Hide = (text: string) => string;

function asFailure(error: unknown, signal: AbortSignal, deadlineMs: number, hide: Hide): unknown {
  if (error instanceof RolloutFailure)
    return new RolloutFailure(error.reason, hide(error.message), error.status);
  const cut = error instanceof APIUserAbortError || error instanceof APIConnectionTimeoutError;
  if (signal.aborted || cut) {
    const busy = error instanceof RateLimitError;
    const what = busy ? 'the endpoint was full' : 'no answer';
    return new RolloutFailure(busy ? 'overloaded' : 'deadline', `${what} for ${deadlineMs} ms`);
  }
  if (error instanceof APIConnectionError) {
    if (error.cause instanceof EndlessAnswer)
      return new RolloutFailure('invalid-answer', error.cause.message);
    return new RolloutFailure('connection', hide(`${error.message} ${messageOf(error.cause ?? '')}`).trim());
  }
  if (error instanceof APIError) return httpFailure(error, hide);
  // What is left is a body that is not what its headers say.
  if (error instanceof SyntaxError) return new RolloutFailure('invalid-answer', hide(error.message));
  return error;
}

/** Longer ones are the error pages of some proxy. */
const MESSAGE_CHARS = 500;

function httpFailure(error: APIError, hide: Hide): RolloutFailure {
  const status = error.status as number;
  // Hidden first: a cut through the key would leave half of it.
  const message = hide(error.message).slice(0, MESSAGE_CHARS);
  const tooLong =
    error.param === 'input_tokens' || /maximum context length|greater than max_model_len/.test(message);
  if (status === 400 && tooLong) return new RolloutFailure('too-long', message, status);
  const unknown = error.param === 'model' || /does not exist/.test(message);
  if (status === 404 && unknown) return new RolloutFailure('unknown-model', message, status);
  return new RolloutFailure('http', message, status);
}
