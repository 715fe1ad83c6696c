/** What an endpoint may answer, checked to the last count: a wrong answer is an error, never a rollout. */
import { z } from 'zod';
import type { PolicyOutput } from '../env/types.ts';
import type { CompletionCall, ModelCard } from './endpoint.ts';
import { RolloutFailure } from './rollout-failure.ts';

/** vLLM writes −9999 for minus infinity: at or below this a log-probability is not one. */
const IMPOSSIBLE = -9000;
/** Rounding may lift the log-probability of a certain token a little above 0. */
const MOST = 1e-3;

const ids = z.array(z.number().int().min(0));
const choiceSchema = z.looseObject({
  text: z.string(),
  finish_reason: z.string().nullable(),
  logprobs: z.looseObject({ token_logprobs: z.array(z.number().nullable()) }).nullish(),
  token_ids: ids.nullish(),
  prompt_token_ids: ids.nullish(),
  prompt_logprobs: z.array(z.record(z.string(), z.looseObject({ logprob: z.number() })).nullable()).nullish(),
});
const completionSchema = z.looseObject({
  model: z.string(),
  choices: z.array(choiceSchema).length(1),
  usage: z.looseObject({ prompt_tokens: z.number(), completion_tokens: z.number() }),
});
const modelsSchema = z.looseObject({
  data: z.array(
    z.looseObject({
      id: z.string(),
      root: z.string().nullish(),
      parent: z.string().nullish(),
      max_model_len: z.number().nullish(),
    }),
  ),
});
const versionSchema = z.looseObject({ version: z.string() });
const tokensSchema = z.looseObject({ tokens: ids });

function invalid(message: string): never {
  throw new RolloutFailure('invalid-answer', message);
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  return invalid(`${issue.path.join('.') || '(top)'}: ${issue.message}`);
}

function checkLogprob(value: number | null | undefined, where: string): number {
  if (value == null || !Number.isFinite(value) || value <= IMPOSSIBLE || value > MOST) {
    return invalid(`${where}: ${value} is not a log-probability`);
  }
  return Math.min(value, 0);
}

const quote = (text: string): string => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);

export function sameIds(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}

/** The one choice of an answer that comes from the asked model and has the sent prompt. */
function onlyChoice(body: unknown, model: string, promptIds: number[]) {
  const answer = parse(completionSchema, body);
  if (answer.model !== model) {
    throw new RolloutFailure('wrong-model', `asked for ${model}, answered by ${answer.model}`);
  }
  const choice = answer.choices[0]!;
  if (!choice.token_ids || !choice.prompt_token_ids) {
    return invalid('no token ids: the server does not know return_token_ids');
  }
  if (!sameIds(choice.prompt_token_ids, promptIds))
    invalid('prompt_token_ids are not the ids that were sent');
  const { prompt_tokens: prompt, completion_tokens: completion } = answer.usage;
  if (prompt !== promptIds.length)
    invalid(`usage counts ${prompt} prompt tokens, ${promptIds.length} were sent`);
  if (completion !== choice.token_ids.length) {
    invalid(`usage counts ${completion} output tokens, the answer has ${choice.token_ids.length}`);
  }
  return { ...choice, token_ids: choice.token_ids };
}

/**
 * Whether the text is what the ids stand for. Servers decode token by token: bytes that are no UTF-8 may come
 * out otherwise (U+FFFD is left out of the comparison), an unfinished character at the end is kept back with
 * its whole token, and a space at the start may be kept or not.
 */
function sameText(given: string, decoded: string): boolean {
  const plain = (text: string): string => text.replaceAll('\uFFFD', '').trimStart();
  if (plain(given) === plain(decoded)) return true;
  return decoded.endsWith('\uFFFD') && plain(decoded).startsWith(plain(given));
}

/**
 * Checks an answer to `call` and takes the rollout out of it. `decode` gives the text of ids, special tokens
 * left out: where it is given the text must be that of the ids, the end token not included.
 */
export function readCompletion(
  body: unknown,
  call: CompletionCall,
  decode?: (ids: readonly number[]) => string,
): PolicyOutput & { model: string } {
  const choice = onlyChoice(body, call.model, call.promptIds);
  const { token_ids: outputIds, finish_reason: finishReason, text } = choice;
  if (finishReason !== 'stop' && finishReason !== 'length') {
    return invalid(`finish_reason ${finishReason} is neither stop nor length`);
  }
  if (outputIds.length === 0 || outputIds.length > call.maxTokens) {
    invalid(`${outputIds.length} output tokens, ${call.maxTokens} were asked for`);
  }
  if (finishReason === 'length' && outputIds.length < call.maxTokens) {
    // vLLM gives what still fits into the model behind the prompt, with a 200.
    const what = `cut after ${outputIds.length} of ${call.maxTokens} output tokens: no room is left behind the prompt`;
    throw new RolloutFailure('too-long', what);
  }
  const given = choice.logprobs?.token_logprobs ?? [];
  if (given.length !== outputIds.length) {
    invalid(`${given.length} log-probabilities for ${outputIds.length} output tokens`);
  }
  const logprobs = given.map((value, i) => checkLogprob(value, `logprobs.token_logprobs.${i}`));
  const { model, promptIds, temperature } = call;
  const spoken = finishReason === 'stop' ? outputIds.slice(0, -1) : outputIds;
  if (decode && !sameText(text, decode(spoken))) {
    invalid(`the text is ${quote(text)}, its ids stand for ${quote(decode(spoken))}`);
  }
  return { promptIds, outputIds, logprobs, temperature, finishReason, text, model };
}

/** The log-probabilities of `promptIds[1..]`. */
export function readPromptLogprobs(body: unknown, model: string, promptIds: number[]): number[] {
  const { prompt_logprobs: given } = onlyChoice(body, model, promptIds);
  if (given?.length !== promptIds.length) {
    return invalid(`${given?.length ?? 'no'} prompt_logprobs for ${promptIds.length} prompt tokens`);
  }
  if (given[0] !== null) invalid('prompt_logprobs.0 is not null');
  return promptIds
    .slice(1)
    .map((id, i) => checkLogprob(given[i + 1]?.[id]?.logprob, `prompt_logprobs.${i + 1}`));
}

export function readModels(body: unknown): ModelCard[] {
  return parse(modelsSchema, body).data.map(({ id, root, parent, max_model_len }) => ({
    id,
    root: root ?? null,
    parent: parent ?? null,
    maxModelLen: max_model_len ?? null,
  }));
}

export const readVersion = (body: unknown): string => parse(versionSchema, body).version;
export const readTokenIds = (body: unknown): number[] => parse(tokensSchema, body).tokens;
