/**
 * The bodies that the server takes. A field that would change the sampling and that we do not have is
 * refused by name, never ignored: the answered log-probabilities would not be those of the distribution
 * that was asked for. Fields at their neutral value pass, and so does null.
 *
 * Unset fields have fixed defaults (temperature 1, max_tokens 16); the model's generation_config.json is
 * read for its end tokens only.
 */
import { z } from 'zod';
import { badRequest } from './api-error.ts';

export interface RequestLimits {
  /** Prompt and output together. */
  maxModelLen: number;
  vocabSize: number;
  /** Samples of one request: prompts × n. */
  maxSamples: number;
}

const ONLY = 'only temperature, top_p and top_k shape the distribution';
const neutral = <T extends string | number | boolean>(values: T[], why: string) =>
  z
    .literal(values, {
      error: `must be ${values.map((value) => JSON.stringify(value)).join(' or ')}: ${why}`,
    })
    .nullish();
const absent = (why: string) => z.null({ error: why }).optional();
const tokenId = z.number().int().min(0);

const completionSchema = z.strictObject({
  model: z.string(),
  prompt: z.union(
    [
      z.string(),
      z.array(tokenId).min(1),
      z.array(z.string()).min(1),
      z.array(z.array(tokenId).min(1)).min(1),
    ],
    { error: 'must be a text, token ids, or a list of one of them, and not empty' },
  ),
  max_tokens: z.number().int().min(0).nullish(),
  n: z.number().int().min(1).nullish(),
  seed: z.number().int().nullish(),
  /** 0 is greedy; log-probabilities are then those of temperature 1 and of the full distribution. */
  temperature: z.number().min(0).nullish(),
  /** The log-probabilities answered are those of what is sampled: renormalised over the tokens kept. */
  top_p: z.number().gt(0).max(1).nullish(),
  /** 0 and −1: all tokens. */
  top_k: z.number().int().min(-1).nullish(),
  stop_token_ids: z.array(tokenId).nullish(),
  ignore_eos: z.boolean().nullish(),
  logprobs: neutral([0], "only the sampled token's log-probability is given"),
  prompt_logprobs: neutral([0], "only the prompt token's own log-probability is given"),
  echo: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  cache_salt: z.string().min(1).nullish(),

  min_p: neutral([0], ONLY),
  typical_p: neutral([1], ONLY),
  presence_penalty: neutral([0], 'penalties are not supported'),
  frequency_penalty: neutral([0], 'penalties are not supported'),
  repetition_penalty: neutral([1], 'penalties are not supported'),
  length_penalty: neutral([1], 'beam search is not supported'),
  use_beam_search: neutral([false], 'beam search is not supported'),
  best_of: neutral([1], 'best_of is not supported'),
  min_tokens: neutral([0], 'min_tokens is not supported'),
  stream: neutral([false], 'streaming is not supported'),
  stream_options: absent('streaming is not supported'),
  stop: z
    .array(z.string())
    .length(0, { error: 'stop strings are not supported: use stop_token_ids' })
    .nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  logit_bias: absent('logit_bias is not supported'),
  suffix: neutral([''], 'suffix is not supported'),
  allowed_token_ids: absent('allowed_token_ids is not supported'),
  bad_words: z.array(z.string()).length(0, { error: 'bad_words is not supported' }).nullish(),
  truncate_prompt_tokens: absent('truncate_prompt_tokens is not supported'),
  response_format: absent('response_format is not supported'),
  structured_outputs: absent('structured_outputs is not supported'),

  /** Text prompts get the token that starts a text (Llama's, Mistral's), as in vLLM; ids stay as they are. */
  add_special_tokens: z.boolean().nullish(),

  // Of no consequence here: who asks, under which id, how urgently.
  user: z.string().nullish(),
  request_id: z.string().nullish(),
  priority: z.number().nullish(),
  spaces_between_special_tokens: z.boolean().nullish(),
});

/** A completion request with every default filled in. */
export interface CompletionRequest {
  model: string;
  prompts: string[] | number[][];
  maxTokens: number;
  n: number;
  seed: number | null;
  temperature: number;
  topP: number;
  /** 0: all tokens. */
  topK: number;
  stopTokenIds: number[];
  ignoreEos: boolean;
  logprobs: boolean;
  promptLogprobs: boolean;
  echo: boolean;
  returnTokenIds: boolean;
  tokensAsIds: boolean;
  skipSpecialTokens: boolean;
  addSpecialTokens: boolean;
  cacheSalt: string;
}

const tokenizeSchema = z.strictObject({
  model: z.string().nullish(),
  prompt: z.string().nullish(),
  messages: z
    .array(z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() }))
    .min(1)
    .nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: neutral([false], 'continue_final_message is not supported'),
  chat_template: absent("only the model's own chat template is used"),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  tools: absent('tools are not supported'),
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
});

export const loadSchema = z.looseObject({
  lora_name: z.string().nullish(),
  lora_path: z.string().nullish(),
  load_inplace: z.boolean().nullish(),
});

export const unloadSchema = z.looseObject({ lora_name: z.string().nullish() });

/** Parses a body; the first problem becomes a 400 that names its field. */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  if (issue.code === 'unrecognized_keys' && issue.path.length === 0) {
    const [key] = issue.keys;
    throw badRequest(`${key} is not a field that this server knows`, key);
  }
  const field = issue.path.join('.') || null;
  throw badRequest(field ? `${field}: ${issue.message}` : issue.message, field);
}

function normalisePrompts(prompt: z.infer<typeof completionSchema>['prompt']): string[] | number[][] {
  if (typeof prompt === 'string') return [prompt];
  if (typeof prompt[0] === 'number') return [prompt as number[]];
  return prompt as string[] | number[][];
}

/** Lengths and ids are checked by `checkPrompts`, once text is tokenised. */
export function parseCompletion(body: unknown, limits: RequestLimits): CompletionRequest {
  const b = parseBody(completionSchema, body);
  const prompts = normalisePrompts(b.prompt);
  const n = b.n ?? 1;
  if (prompts.length * n > limits.maxSamples) {
    const what = `${prompts.length} prompts × n ${n} are more than ${limits.maxSamples} samples a request`;
    throw badRequest(what, 'n');
  }
  const maxTokens = b.max_tokens ?? 16;
  const echo = b.echo ?? false;
  const promptLogprobs = b.prompt_logprobs === 0;
  if (echo && maxTokens > 1) throw badRequest('echo is supported with max_tokens 0 or 1', 'echo');
  if (maxTokens === 0 && !echo && !promptLogprobs) {
    throw badRequest('max_tokens 0 needs echo or prompt_logprobs', 'max_tokens');
  }
  if (b.temperature && b.temperature < 0.01) {
    throw badRequest('temperature must be 0 (greedy) or at least 0.01', 'temperature');
  }
  for (const id of b.stop_token_ids ?? []) {
    if (id >= limits.vocabSize) throw badRequest(`stop_token_ids: ${id} is not a token`, 'stop_token_ids');
  }
  return {
    model: b.model,
    prompts,
    maxTokens,
    n,
    seed: b.seed ?? null,
    temperature: b.temperature ?? 1,
    topP: b.top_p ?? 1,
    topK: Math.max(0, b.top_k ?? 0),
    stopTokenIds: b.stop_token_ids ?? [],
    ignoreEos: b.ignore_eos ?? false,
    logprobs: b.logprobs === 0,
    promptLogprobs,
    echo,
    returnTokenIds: b.return_token_ids ?? false,
    tokensAsIds: b.return_tokens_as_token_ids ?? false,
    skipSpecialTokens: b.skip_special_tokens ?? true,
    addSpecialTokens: b.add_special_tokens ?? true,
    cacheSalt: b.cache_salt ?? '',
  };
}

const tooLong = (maxTokens: number, prompt: string, { maxModelLen }: RequestLimits) =>
  badRequest(
    `This model's maximum context length is ${maxModelLen} tokens. ${maxTokens} output tokens were requested ` +
      `and the prompt has ${prompt} input tokens: shorten one of them.`,
    'input_tokens',
  );

/**
 * Refuses a text that is too long however it is tokenised: tokenising it would keep every other request
 * waiting. `longestToken`: characters of the longest token.
 */
export function checkTextSize(
  text: string,
  maxTokens: number,
  limits: RequestLimits,
  longestToken: number,
): void {
  // composed, as some tokenizers see it: that can only be shorter
  const least = Math.ceil(text.normalize('NFC').length / longestToken);
  if (least + maxTokens > limits.maxModelLen) throw tooLong(maxTokens, `at least ${least}`, limits);
}

/** Every id is a token and every prompt leaves room for its output. */
export function checkPrompts(prompts: number[][], maxTokens: number, limits: RequestLimits): void {
  for (const prompt of prompts) {
    if (prompt.length === 0) throw badRequest('prompt: is empty', 'prompt');
    if (prompt.length + maxTokens > limits.maxModelLen) {
      throw tooLong(maxTokens, String(prompt.length), limits);
    }
    const unknown = prompt.find((id) => id >= limits.vocabSize);
    if (unknown !== undefined) {
      throw badRequest(
        `prompt: token id ${unknown} is outside the vocabulary of ${limits.vocabSize}`,
        'prompt',
      );
    }
  }
}

export type TokenizeRequest = z.infer<typeof tokenizeSchema>;

/** Exactly one of `prompt` and `messages` is set. */
export function parseTokenize(body: unknown): TokenizeRequest {
  const request = parseBody(tokenizeSchema, body);
  if ((request.prompt == null) === (request.messages == null)) {
    throw badRequest('give either prompt or messages', 'prompt');
  }
  return request;
}
