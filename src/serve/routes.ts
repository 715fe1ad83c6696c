/** What the server answers: one function a route, over the engine and the adapter registry. */
import { messageOf, UserError } from '../base/errors.ts';
import { streamSeed } from '../base/random.ts';
import { type ChatTemplate, renderPromptIds } from '../rollout/chat-template.ts';
import type { TextTokenizer } from '../rollout/tokenizer.ts';
import type { AdapterRegistry } from './adapter-registry.ts';
import { completionBody, type Detokenizer, modelsBody } from './answer.ts';
import { ApiError, badRequest } from './api-error.ts';
import { type EngineClient, EngineError, type Generated } from './engine-client.ts';
import type { Answer } from './http.ts';
import type { AdapterUid, GenerateJob } from './protocol.ts';
import {
  checkPrompts,
  checkTextSize,
  loadSchema,
  parseBody,
  parseCompletion,
  parseTokenize,
  type RequestLimits,
  unloadSchema,
} from './request.ts';

export interface RouteContext {
  engine: EngineClient;
  adapters: AdapterRegistry;
  tokenizer: TextTokenizer;
  /** Null when the model has none: /tokenize then takes `prompt` only. */
  chatTemplate: ChatTemplate | null;
  detokenizer: Detokenizer;
  base: { id: string; root: string; maxModelLen: number; created: number };
  eosIds: number[];
  limits: RequestLimits & { maxQueued: number };
  version: string;
  /** Unix seconds. */
  now(): number;
  log(line: string): void;
}

/** `signal` is aborted when the client goes away. Throws ApiError for anything but success. */
export type Route = (body: unknown, signal: AbortSignal) => Promise<Answer> | Answer;

/** The routes by method and path. */
export function createRoutes(context: RouteContext): Map<string, Route> {
  const { adapters, base, engine, log } = context;
  const complete = completions(context);
  return new Map<string, Route>([
    ['GET /health', () => ({ kind: 'empty', status: engine.death() === null ? 200 : 503 })],
    ['GET /ping', () => ({ kind: 'empty', status: engine.death() === null ? 200 : 503 })],
    ['GET /version', () => ({ kind: 'json', body: { version: context.version } })],
    ['GET /v1/models', () => ({ kind: 'json', body: modelsBody(base, adapters.cards()) })],
    ['POST /v1/completions', complete],
    ['POST /tokenize', (body) => tokenize(context, body)],
    [
      'POST /v1/load_lora_adapter',
      async (body) => {
        const { lora_name: name, lora_path: path, load_inplace: inPlace } = parseBody(loadSchema, body);
        if (!name || !path) {
          throw new ApiError(400, 'InvalidUserInput', "Both 'lora_name' and 'lora_path' must be provided.");
        }
        if (inPlace) throw badRequest('load_inplace: names are immutable, load a new name', 'load_inplace');
        await adapters.load(name, path).catch(throwApiError);
        log(`loaded adapter ${name} from ${path}`);
        return { kind: 'text', body: `Success: LoRA adapter '${name}' added successfully.` };
      },
    ],
    [
      'POST /v1/unload_lora_adapter',
      (body) => {
        const { lora_name: name } = parseBody(unloadSchema, body);
        if (!name) throw new ApiError(400, 'InvalidUserInput', "'lora_name' must be provided.");
        adapters.unload(name);
        log(`unloaded adapter ${name}`);
        return { kind: 'text', body: `Success: LoRA adapter '${name}' removed successfully.` };
      },
    ],
  ]);
}

function uidOf({ adapters, base }: RouteContext, model: string): AdapterUid {
  const uid = model === base.id ? 0 : adapters.uidOf(model);
  if (uid === undefined) {
    throw new ApiError(404, 'NotFoundError', `The model \`${model}\` does not exist.`, 'model');
  }
  return uid;
}

/** Engine trouble in the protocol's terms: dead 503, failed 500. Never hidden in a 200. */
function throwApiError(error: unknown): never {
  if (!(error instanceof EngineError)) throw error;
  if (error.kind === 'failed') throw new ApiError(500, 'InternalServerError', error.message);
  throw new ApiError(503, 'ServiceUnavailable', error.message);
}

function completions(context: RouteContext): Route {
  const { engine, tokenizer, eosIds, limits, detokenizer } = context;
  let served = 0;
  let queued = 0;

  /** Runs the job, counted against the queue's limit while it lasts. */
  async function run(job: Omit<GenerateJob, 'id'>, signal: AbortSignal): Promise<Generated> {
    const size = job.prompts.length * job.n;
    if (queued + size > limits.maxQueued) {
      const what = `${queued} samples are under way and ${limits.maxQueued} is the most: try again later`;
      throw new ApiError(429, 'TooManyRequests', what);
    }
    queued += size;
    try {
      return await engine.generate(job, signal);
    } catch (error) {
      return throwApiError(error);
    } finally {
      queued -= size;
    }
  }

  return async (body, signal) => {
    const request = parseCompletion(body, limits);
    const adapter = uidOf(context, request.model);
    for (const prompt of request.prompts)
      if (typeof prompt === 'string')
        checkTextSize(prompt, request.maxTokens, limits, tokenizer.longestToken);
    const prompts = request.prompts.map((prompt) =>
      typeof prompt === 'string' ? textIds(tokenizer, prompt, request.addSpecialTokens) : prompt,
    );
    checkPrompts(prompts, request.maxTokens, limits);
    const number = served++;
    const job = {
      adapter,
      prompts,
      n: request.n,
      // A request without a seed gets one of its own, by its number.
      seed: request.seed ?? streamSeed(0, 'request', number),
      maxTokens: request.maxTokens,
      temperature: request.temperature,
      topP: request.topP,
      topK: request.topK,
      stopIds: [...request.stopTokenIds, ...(request.ignoreEos ? [] : eosIds)],
      score: request.promptLogprobs || (request.echo && request.logprobs),
      salt: request.cacheSalt,
    };
    const generated = await run(job, signal);
    const id = `cmpl-${number}`;
    const created = context.now();
    return {
      kind: 'json',
      body: completionBody({ id, created, request, prompts, generated, eosIds, detokenizer }),
    };
  };
}

/** Ids of a prompt that came as text; `special`: with the token that starts a text, where the model has one. */
function textIds(tokenizer: TextTokenizer, text: string, special: boolean): number[] {
  const { startId } = tokenizer;
  return [...(special && startId !== null ? [startId] : []), ...tokenizer.encodeMarkup(text)];
}

function tokenize(context: RouteContext, body: unknown): Answer {
  const request = parseTokenize(body);
  if (request.model != null) uidOf(context, request.model);
  // a rendered prompt has its start token from the template
  const tokens =
    request.prompt != null
      ? textIds(context.tokenizer, request.prompt, request.add_special_tokens ?? true)
      : rendered();

  function rendered(): number[] {
    if (!context.chatTemplate) throw badRequest('the model has no chat template', 'messages');
    const options = {
      addGenerationPrompt: request.add_generation_prompt ?? true,
      ...(request.chat_template_kwargs ? { kwargs: request.chat_template_kwargs } : {}),
    };
    try {
      return renderPromptIds(context.chatTemplate, context.tokenizer, request.messages!, options);
    } catch (error) {
      throw error instanceof UserError ? badRequest(messageOf(error), 'messages') : error;
    }
  }

  const strings = request.return_token_strs ? tokens.map((id) => context.detokenizer.token(id)) : null;
  const { maxModelLen } = context.base;
  return {
    kind: 'json',
    body: { count: tokens.length, max_model_len: maxModelLen, tokens, token_strs: strings },
  };
}
