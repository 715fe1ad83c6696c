/** Completions of the honest endpoint: ids in, ids and log-probabilities out, field for field as vLLM answers. */
import { stream } from '../../src/base/random.ts';
import type { Adapter } from '../../src/engine/types.ts';
import type { HonestOptions, State } from './honest.ts';
import { json, type Reply, refuse } from './reply.ts';

/** Token v is written as the letter at LETTERS + v. */
export const LETTERS = 0x4e00;
const textOf = (ids: readonly number[]): string =>
  ids.map((id) => String.fromCharCode(LETTERS + id)).join('');
const bad = (message: string, param: string | null = null): Reply =>
  refuse(400, 'BadRequestError', message, param);

interface Asked {
  temperature: number;
  maxTokens: number;
  stopIds: number[];
  seed: number;
}

/** `answerAs`: whose weights answer instead of those of the asked name. */
export function complete(
  state: State,
  body: Record<string, unknown>,
  answerAs?: { adapter: Adapter | null },
): Reply {
  const { options } = state;
  const { model, maxModelLen, baseModel } = options;
  const found = state.loaded.find(({ name }) => name === body.model);
  if (body.model !== baseModel && !found) {
    const message = `The model \`${body.model}\` does not exist. Valid aliases: ${baseModel}.`;
    return refuse(404, 'NotFoundError', message, 'model');
  }
  const { adapter } = answerAs ?? { adapter: found?.adapter ?? null };
  const prompts = promptsOf(body.prompt);
  if (prompts === null || prompts.some((ids) => ids.length === 0))
    return bad('You must pass at least one prompt of token ids', 'prompt');
  const unknown = prompts.flat().find((id) => !Number.isInteger(id) || id < 0 || id >= model.vocab);
  if (unknown !== undefined) return bad(`Token id ${unknown} is out of vocabulary`);
  const [temperature, n] = [Number(body.temperature ?? 1), Number(body.n ?? 1)];
  if (!(temperature >= 0)) return bad(`temperature must be non-negative, got ${temperature}.`, 'temperature');
  if (temperature === 0 && n > 1) return bad(`n must be 1 when using greedy sampling, got ${n}.`);
  const maxTokens = Number(body.max_tokens ?? 16);
  if (maxTokens < 1) return bad(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens');
  if (maxTokens > maxModelLen) {
    const message = `max_tokens=${maxTokens} cannot be greater than max_model_len=${maxModelLen}.`;
    return bad(message, 'max_tokens');
  }
  const longest = Math.max(...prompts.map(({ length }) => length));
  if (longest >= maxModelLen) {
    const message = `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains ${longest} input tokens`;
    return bad(message, 'input_tokens');
  }
  if (body.cache_salt === '')
    return bad("Parameter 'cache_salt' must be a non-empty string if provided.", 'cache_salt');
  const seed = Number(body.seed ?? 1_000_003 * ++state.requests);
  const stopIds = [...((body.stop_token_ids as number[]) ?? []), ...(body.ignore_eos ? [] : [model.endId])];
  const choices = prompts.flatMap((prompt, p) =>
    Array.from({ length: n }, (_, i) => {
      const room = Math.min(maxTokens, maxModelLen - prompt.length);
      const sampled = sample(options, prompt, adapter, {
        temperature,
        maxTokens: room,
        stopIds,
        seed: seed + i,
      });
      return choiceOf(options, p * n + i, prompt, sampled, body, adapter);
    }),
  );
  const promptTokens = prompts.reduce((sum, { length }) => sum + length, 0);
  const outputTokens = choices.reduce((sum, { length }) => sum + length, 0);
  const usage = {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + outputTokens,
    completion_tokens: outputTokens,
  };
  return json({
    id: 'cmpl-1',
    object: 'text_completion',
    created: 1,
    model: body.model,
    choices: choices.map(({ choice }) => choice),
    usage,
  });
}

function promptsOf(prompt: unknown): number[][] | null {
  if (!Array.isArray(prompt) || prompt.length === 0) return null;
  return Array.isArray(prompt[0]) ? (prompt as number[][]) : [prompt as number[]];
}

interface Sampled {
  ids: number[];
  logprobs: number[];
  stop: boolean;
}

function sample(
  { model, logprobs: mode }: HonestOptions,
  prompt: number[],
  adapter: Adapter | null,
  { temperature, maxTokens, stopIds, seed }: Asked,
): Sampled {
  const random = stream(seed, 'sample');
  const sampled: Sampled = { ids: [], logprobs: [], stop: false };
  while (sampled.ids.length < maxTokens && !sampled.stop) {
    const context = [...prompt, ...sampled.ids];
    const raw = Array.from(model.logprobs(context, adapter, 1));
    const drawn =
      temperature === 0 || temperature === 1
        ? raw
        : Array.from(model.logprobs(context, adapter, temperature));
    const id = temperature === 0 ? raw.indexOf(Math.max(...raw)) : draw(drawn, random.next());
    sampled.ids.push(id);
    sampled.logprobs.push((mode === 'raw' ? raw : drawn)[id]!);
    sampled.stop = stopIds.includes(id);
  }
  return sampled;
}

/** The token at `point` in [0, 1) of the cumulated probabilities; their sum may end a rounding error below it. */
function draw(logprobs: readonly number[], point: number): number {
  let passed = 0;
  for (const [id, logprob] of logprobs.entries()) {
    passed += Math.exp(logprob);
    if (point < passed) return id;
  }
  return logprobs.length - 1;
}

function choiceOf(
  { model }: HonestOptions,
  index: number,
  prompt: number[],
  { ids, logprobs, stop }: Sampled,
  body: Record<string, unknown>,
  adapter: Adapter | null,
): { length: number; choice: object } {
  const end = stop ? ids.at(-1)! : null;
  const scored = (id: number, position: number): object | null => {
    if (position === 0) return null;
    const row = Array.from(model.logprobs(prompt.slice(0, position), adapter, 1));
    const rank = 1 + row.filter((x) => x > row[id]!).length;
    return { [id]: { logprob: row[id], rank, decoded_token: textOf([id]) } };
  };
  const choice = {
    index,
    text: textOf(end === null ? ids : ids.slice(0, -1)),
    logprobs:
      body.logprobs == null
        ? null
        : {
            text_offset: ids.map((_, i) => i),
            token_logprobs: logprobs,
            tokens: ids.map((id) => textOf([id])),
            top_logprobs: ids.map((id, i) => ({ [textOf([id])]: logprobs[i] })),
          },
    finish_reason: stop ? 'stop' : 'length',
    stop_reason: end === model.endId && !body.ignore_eos ? null : end,
    token_ids: body.return_token_ids ? ids : null,
    prompt_token_ids: body.return_token_ids ? prompt : null,
    prompt_logprobs: body.prompt_logprobs == null ? null : prompt.map(scored),
  };
  return { length: ids.length, choice };
}
