/** The honest part of the hostile endpoint: the routes of vLLM's server as observed of version 0.32, over a fake model. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../src/base/errors.ts';
import { readAdapter } from '../../src/engine/peft.ts';
import type { Adapter } from '../../src/engine/types.ts';
import { complete, LETTERS } from './complete.ts';
import type { FakeModel } from './model.ts';
import { json, type Reply, refuse, text } from './reply.ts';
import type { Route } from './script.ts';

/** One name, and what truly answers under it. */
export interface Loaded {
  name: string;
  root: string;
  listed: boolean;
  /** The tensors as the files held them when they were loaded; null: the base model answers. */
  adapter: Adapter | null;
}

export interface HonestOptions {
  model: FakeModel;
  baseModel: string;
  maxModelLen: number;
  maxLoraRank: number;
  logprobs: 'raw' | 'processed';
}

export interface State {
  options: HonestOptions;
  /** In the order of loading. */
  loaded: Loaded[];
  requests: number;
}

/** The route of a request; `body` tells a proof's question from a rollout's. */
export function routeOf(method: string, path: string, body: Record<string, unknown>): Route {
  switch (`${method} ${path}`) {
    case 'GET /health':
    case 'GET /ping':
      return 'health';
    case 'GET /version':
      return 'version';
    case 'GET /v1/models':
      return 'models';
    case 'POST /tokenize':
      return 'tokenize';
    case 'POST /v1/load_lora_adapter':
      return 'load';
    case 'POST /v1/unload_lora_adapter':
      return 'unload';
    case 'POST /v1/completions':
      return body.prompt_logprobs == null ? 'completions' : 'score';
    default:
      return 'other';
  }
}

/** What the server answers, and does, when nothing goes wrong. `answerAs`: whose weights answer instead. */
export function answerHonestly(
  state: State,
  route: Route,
  body: Record<string, unknown>,
  answerAs?: { adapter: Adapter | null },
): Reply {
  switch (route) {
    case 'health':
      return text('');
    case 'version':
      return json({ version: '0.32.0' });
    case 'models':
      return models(state);
    case 'tokenize':
      return tokenize(state, body);
    case 'load':
      return load(state, body);
    case 'unload':
      return unload(state, body);
    case 'completions':
    case 'score':
      return complete(state, body, answerAs);
    case 'other':
      return { status: 404, type: 'json', body: { detail: 'Not Found' } };
  }
}

function models({ loaded, options }: State): Reply {
  const { baseModel: id, maxModelLen } = options;
  const common = { object: 'model', created: 1, owned_by: 'vllm', permission: [] };
  const cards = loaded.filter(({ listed }) => listed);
  return json({
    object: 'list',
    data: [
      { id, ...common, root: `/models/${id}`, parent: null, max_model_len: maxModelLen },
      ...cards.map(({ name, root }) => ({ id: name, ...common, root, parent: id, max_model_len: null })),
    ],
  });
}

/** A character a token: any character becomes one of the vocabulary. */
function tokenize({ options }: State, body: Record<string, unknown>): Reply {
  if (typeof body.prompt !== 'string') return refuse(400, 'Bad Request', 'prompt: Field required', 'prompt');
  const tokens = [...body.prompt].map(
    (letter) => Math.abs(letter.codePointAt(0)! - LETTERS) % options.model.vocab,
  );
  return json({ count: tokens.length, max_model_len: options.maxModelLen, tokens, token_strs: null });
}

function load(state: State, body: Record<string, unknown>): Reply {
  const { lora_name: name, lora_path: path } = body as { lora_name?: string; lora_path?: string };
  const { baseModel, maxLoraRank } = state.options;
  if (!name || !path)
    return refuse(400, 'InvalidUserInput', "Both 'lora_name' and 'lora_path' must be provided.");
  if (name === baseModel)
    return refuse(400, 'InvalidUserInput', `The lora adapter '${name}' conflicts with a served base model.`);
  if (state.loaded.some((one) => one.name === name)) {
    const how = "If you want to load the adapter in place, set 'load_inplace' to True.";
    return refuse(400, 'InvalidUserInput', `The lora adapter '${name}' has already been loaded. ${how}`);
  }
  if (!existsSync(join(path, 'adapter_config.json')))
    return refuse(404, 'NotFoundError', `Loading lora ${name} failed: No adapter found for <path>`);
  const failed = (why: string): Reply =>
    refuse(500, 'InternalServerError', `Call to add_lora method failed: Worker failed with error '${why}'`);
  try {
    const adapter = readAdapter(path);
    if (adapter.spec.r > maxLoraRank)
      return failed(`LoRA rank ${adapter.spec.r} is greater than max_lora_rank ${maxLoraRank}.`);
    state.loaded.push({ name, root: path, listed: true, adapter });
  } catch (error) {
    return failed(messageOf(error));
  }
  return text(`Success: LoRA adapter '${name}' added successfully.`);
}

function unload(state: State, { lora_name: name }: Record<string, unknown>): Reply {
  if (!name)
    return refuse(400, 'InvalidUserInput', "'lora_name' needs to be provided to unload a LoRA adapter.");
  const at = state.loaded.findIndex((one) => one.name === name);
  if (at < 0) return refuse(404, 'NotFoundError', `The lora adapter '${name}' cannot be found.`, 'lora_name');
  state.loaded.splice(at, 1);
  return text(`Success: LoRA adapter '${name}' removed successfully.`);
}
