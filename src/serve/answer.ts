/** The answers of /v1/completions and /v1/models, field for field as clients of vLLM read them. */
import type { TextTokenizer } from '../rollout/tokenizer.ts';
import type { AdapterCard } from './adapter-registry.ts';
import type { Generated } from './engine-client.ts';
import type { SampleResult, ScoreResult } from './protocol.ts';
import type { CompletionRequest } from './request.ts';

/** Ids to text; the text of single tokens is remembered. */
export interface Detokenizer {
  text(ids: number[], skipSpecial: boolean): string;
  token(id: number): string;
}

export function createDetokenizer(tokenizer: TextTokenizer): Detokenizer {
  const known: string[] = [];
  return {
    text: (ids, skipSpecial) => tokenizer.decode(ids, { skipSpecial }),
    token(id) {
      known[id] ??= tokenizer.decode([id], { skipSpecial: false });
      return known[id];
    },
  };
}

interface CompletionContext {
  id: string;
  /** Unix seconds. */
  created: number;
  request: CompletionRequest;
  prompts: number[][];
  generated: Generated;
  eosIds: number[];
  detokenizer: Detokenizer;
}

/** The whole body: choices in the order prompt × n + i; prompt tokens are counted once per prompt. */
export function completionBody(context: CompletionContext): object {
  const { id, created, request, prompts, generated } = context;
  const choices = prompts.flatMap((prompt, p) =>
    Array.from({ length: request.n }, (_, i) => {
      const index = p * request.n + i;
      return choiceOf(context, index, prompt, generated.samples[index] ?? null, generated.scores[p] ?? null);
    }),
  );
  const promptTokens = prompts.reduce((sum, prompt) => sum + prompt.length, 0);
  const completionTokens = generated.samples.reduce((sum, sample) => sum + sample.ids.length, 0);
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
  return { id, object: 'text_completion', created, model: request.model, choices, usage };
}

/** `sample` is null with max_tokens 0, `score` unless the prompt's log-probabilities were asked for. */
function choiceOf(
  { request, detokenizer, eosIds }: CompletionContext,
  index: number,
  prompt: number[],
  sample: SampleResult | null,
  score: ScoreResult | null,
): object {
  const ids = sample?.ids ?? [];
  const finish = sample?.finish ?? 'length';
  const endId = finish === 'stop' ? ids.at(-1)! : null;
  // As in vLLM: the end token is in the ids and their log-probabilities, not in the text.
  const spoken = endId === null ? ids : ids.slice(0, -1);
  const text = detokenizer.text(spoken, request.skipSpecialTokens);
  const stoppedByEos = endId !== null && !request.ignoreEos && eosIds.includes(endId);
  const echoed = request.echo ? detokenizer.text(prompt, request.skipSpecialTokens) : '';
  return {
    index,
    text: echoed + text,
    finish_reason: finish,
    stop_reason: stoppedByEos ? null : endId,
    logprobs: request.logprobs ? logprobsOf(request, detokenizer, prompt, sample, score) : null,
    token_ids: request.returnTokenIds ? ids : null,
    prompt_token_ids: request.returnTokenIds ? prompt : null,
    prompt_logprobs: request.promptLogprobs && score ? promptLogprobsOf(prompt, score, detokenizer) : null,
  };
}

/** With echo the prompt's tokens come first, and the first of all has no log-probability. */
function logprobsOf(
  request: CompletionRequest,
  detokenizer: Detokenizer,
  prompt: number[],
  sample: SampleResult | null,
  score: ScoreResult | null,
): object {
  const ids = [...(request.echo ? prompt : []), ...(sample?.ids ?? [])];
  const echoed = request.echo && score ? [null, ...score.logprobs] : [];
  const tokens = ids.map((id) => (request.tokensAsIds ? `token_id:${id}` : detokenizer.token(id)));
  let offset = 0;
  const offsets = ids.map((id) => {
    const own = offset;
    offset += detokenizer.token(id).length;
    return own;
  });
  return {
    text_offset: offsets,
    token_logprobs: [...echoed, ...(sample?.logprobs ?? [])].map((value) => value && clamp(value)),
    tokens,
    top_logprobs: ids.map(() => null),
  };
}

function promptLogprobsOf(prompt: number[], score: ScoreResult, detokenizer: Detokenizer): unknown[] {
  return prompt.map((id, position) => {
    if (position === 0) return null;
    const logprob = clamp(score.logprobs[position - 1]!);
    return { [id]: { logprob, rank: score.ranks[position - 1], decoded_token: detokenizer.token(id) } };
  });
}

/** JSON has no minus infinity: vLLM's stand-in, which clients take for "impossible". */
const clamp = (logprob: number): number => Math.max(logprob, -9999);

/** The base model's card, then one per adapter: `root` is the folder that is live. */
export function modelsBody(
  base: { id: string; root: string; maxModelLen: number; created: number },
  adapters: AdapterCard[],
): object {
  const common = { object: 'model', owned_by: 'lexpo', permission: [] };
  const { id, root, maxModelLen, created } = base;
  return {
    object: 'list',
    data: [
      { ...common, id, created, root, parent: null, max_model_len: maxModelLen },
      ...adapters.map((a) => ({ ...common, id: a.name, created: a.loadedAt, root: a.path, parent: id })),
    ],
  };
}
