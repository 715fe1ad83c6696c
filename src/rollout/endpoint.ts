/** The client of a policy endpoint: `lexpo serve` or vLLM, by the OpenAI protocol with token ids. */
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, {
  APIConnectionError,
  APIConnectionTimeoutError,
  APIError,
  APIUserAbortError,
  RateLimitError,
} from 'openai';
import { messageOf } from '../base/errors.ts';
import type { PolicyOutput } from '../env/types.ts';
import { readCompletion, readModels, readPromptLogprobs } from './endpoint-answer.ts';
import { BrokenAnswer, createHttpFetch } from './http-fetch.ts';
import { createLimit } from './limit.ts';
import { RolloutFailure } from './rollout-failure.ts';

export { type FailureReason, RolloutFailure } from './rollout-failure.ts';

export interface EndpointOptions {
  /** With or without the trailing `/v1`. */
  baseUrl: string;
  apiKey?: string | undefined;
  /** Deadline of one call from its dispatch, retries included, milliseconds. */
  deadlineMs: number;
  /** Calls under way at once; more wait their turn, which comes: every call before them has a deadline. */
  maxConcurrent: number;
}

export interface CompletionCall {
  /** The base model's id or an adapter's name: always named, never defaulted. */
  model: string;
  promptIds: number[];
  maxTokens: number;
  /** 0 is greedy. */
  temperature: number;
  seed: number;
  stopTokenIds: number[];
  cacheSalt?: string;
}

export interface ModelCard {
  id: string;
  /** The folder that is live under this id. */
  root: string | null;
}

/** Every method throws a RolloutFailure when it gives nothing usable. */
export interface Endpoint {
  /**
   * One sample, checked: it comes from the asked model, has the sent prompt, one log-probability a token.
   * A lost connection and a full queue are tried again: the same seed samples the same distribution.
   */
  complete(call: CompletionCall): Promise<PolicyOutput & { model: string }>;
  /** Natural log-probabilities of `ids[1..]` given what precedes each, at temperature 1 `[ids.length − 1]`. */
  promptLogprobs(model: string, ids: number[]): Promise<number[]>;
  /** Loads the adapter in folder `path` (absolute) under `name`; already loaded from there counts as done. */
  loadAdapter(name: string, path: string): Promise<void>;
  unloadAdapter(name: string): Promise<void>;
  listModels(): Promise<ModelCard[]>;
}

/** Fields of vLLM's that the OpenAI types do not know. There is no `extra_body` in JavaScript. */
type CompletionBody = OpenAI.Completions.CompletionCreateParamsNonStreaming & {
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  stop_token_ids: number[];
  ignore_eos: boolean;
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
    top_p: 1,
    top_k: 0,
    min_p: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    stop_token_ids: call.stopTokenIds,
    ignore_eos: false,
    logprobs: 0,
    return_token_ids: true,
    stream: false,
    ...(call.cacheSalt ? { cache_salt: call.cacheSalt } : {}),
  };
}

export function createEndpoint(options: EndpointOptions): Endpoint {
  const { deadlineMs } = options;
  const root = options.baseUrl.replace(/\/+$/, '').replace(/\/v1$/, '');
  const client = new OpenAI({
    baseURL: `${root}/v1`,
    // The SDK insists on a key; a server without one ignores it.
    apiKey: options.apiKey ?? 'EMPTY',
    organization: null,
    project: null,
    fetch: createHttpFetch(options.maxConcurrent),
    timeout: deadlineMs,
    maxRetries: 0,
  });
  const limit = createLimit(options.maxConcurrent);

  /** One call within its deadline; failures become RolloutFailures. */
  function call<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return limit(async () => {
      const signal = AbortSignal.timeout(deadlineMs);
      try {
        return await run(signal);
      } catch (error) {
        throw asFailure(error, signal, deadlineMs);
      }
    });
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

  return {
    complete: (asked) =>
      call(async (signal) => readCompletion(await complete(completionBody(asked), signal), asked)),
    promptLogprobs: (model, ids) =>
      call(async (signal) => {
        const ask = { model, promptIds: ids, maxTokens: 1, temperature: 1, seed: 0, stopTokenIds: [] };
        const body = { ...completionBody(ask), prompt_logprobs: 0 };
        return readPromptLogprobs(await complete(body, signal), model, ids);
      }),
    // Loading is not idempotent: it is never sent twice. After a lost answer the caller asks again, and
    // "already loaded" is success when the listed folder is the right one.
    loadAdapter: (name, path) =>
      call(async (signal) => {
        const body = { lora_name: name, lora_path: path };
        try {
          await client.post('/load_lora_adapter', { body, signal });
        } catch (error) {
          if (!(error instanceof APIError) || !/already been loaded/.test(error.message)) throw error;
          const card = (await listModels(signal)).find(({ id }) => id === name);
          if (card?.root !== path) throw error;
        }
      }),
    unloadAdapter: (name) =>
      call(async (signal) => {
        await client.post('/unload_lora_adapter', { body: { lora_name: name }, signal });
      }),
    listModels: () => call(listModels),
  };
}

/** Nothing was answered yet, or the server said that it took nothing in. */
function mayRetry(error: unknown, attempt: number): boolean {
  if (error instanceof RateLimitError) return true;
  if (!(error instanceof APIConnectionError) || error instanceof APIConnectionTimeoutError) return false;
  return attempt < CONNECTION_RETRIES && !(error.cause instanceof BrokenAnswer);
}

function asFailure(error: unknown, signal: AbortSignal, deadlineMs: number): unknown {
  if (error instanceof RolloutFailure) return error;
  const cut = error instanceof APIUserAbortError || error instanceof APIConnectionTimeoutError;
  if (signal.aborted || cut) {
    const busy = error instanceof RateLimitError;
    const what = busy ? 'the endpoint was full' : 'no answer';
    return new RolloutFailure(busy ? 'overloaded' : 'deadline', `${what} for ${deadlineMs} ms`);
  }
  if (error instanceof APIConnectionError) {
    return new RolloutFailure('connection', `${error.message} ${messageOf(error.cause ?? '')}`.trim());
  }
  if (error instanceof APIError) return httpFailure(error);
  // What is left is a body that is not what its headers say.
  if (error instanceof SyntaxError) return new RolloutFailure('invalid-answer', error.message);
  return error;
}

function httpFailure(error: APIError): RolloutFailure {
  const status = error.status as number;
  const tooLong = error.param === 'input_tokens' || /maximum context length/.test(error.message);
  if (status === 400 && tooLong) return new RolloutFailure('too-long', error.message, status);
  const unknown = error.param === 'model' || /does not exist/.test(error.message);
  if (status === 404 && unknown) return new RolloutFailure('unknown-model', error.message, status);
  return new RolloutFailure('http', error.message, status);
}
