/** What can go wrong with an answer: the faults that have been seen in the field, as plain data. */
import type { Reply } from './reply.ts';

export type ErrorShape = 'nested' | 'flat' | 'text' | 'html' | 'empty';

/** An answer that is well formed and wrong in one thing. */
export type Lie =
  | 'no-token-ids'
  | 'other-prompt-ids'
  | 'logprob-missing'
  | 'logprob-added'
  | 'logprob-nan'
  | 'logprob-impossible'
  | 'logprob-positive'
  | 'other-model'
  | 'aborted'
  | 'usage'
  | 'no-choices'
  | 'no-tokens';

export type Fault =
  /** An error status with each kind of body; the request is not applied. */
  | { kind: 'status'; status: number; shape?: ErrorShape; message?: string }
  /** 200 with a body that is not what it should be; the request is applied. */
  | { kind: 'html' }
  | { kind: 'empty' }
  | { kind: 'truncated-json' }
  /** Says more bytes than it sends, then closes. */
  | { kind: 'wrong-length' }
  | { kind: 'lie'; lie: Lie }
  /** No byte ever comes; the request is not applied. */
  | { kind: 'hang' }
  /** Half of the answer comes, and no more; the request is applied. */
  | { kind: 'hang-mid-body' }
  /** The connection is reset: the request was not applied, was applied, or was half answered. */
  | { kind: 'reset-before' }
  | { kind: 'reset-after' }
  | { kind: 'reset-mid-body' }
  /** Answers late, and right. */
  | { kind: 'slow'; ms: number }
  /** On load, with a 200 each: nothing is loaded; it is loaded and not listed; listed from another folder. */
  | { kind: 'load-ignored' }
  | { kind: 'load-unlisted' }
  | { kind: 'load-wrong-root' }
  /** On load: listed, and answers with the base model, or with the adapter loaded before it. */
  | { kind: 'load-as-base' }
  | { kind: 'load-as-previous' }
  /** On a completion: this one answer is by the base model, or by the adapter loaded before. */
  | { kind: 'answer-as-base' }
  | { kind: 'answer-as-previous' }
  /** The process dies in the middle of the request and comes back at once without its adapters. */
  | { kind: 'crash' };

export type FaultKind = Fault['kind'];

/** Not applied: the honest part of the server never sees the request. */
export const UNAPPLIED: readonly FaultKind[] = ['status', 'hang', 'reset-before', 'crash'];

const HTML = '<html><body><h1>502 Bad Gateway</h1></body></html>';
const TYPES: Record<number, string> = { 400: 'BadRequestError', 404: 'NotFoundError' };

/** The error bodies of vLLM now, of vLLM before 0.10, and of the proxies before it. */
export function errorReply(status: number, shape: ErrorShape, message: string): Reply {
  const type = TYPES[status] ?? 'InternalServerError';
  switch (shape) {
    case 'nested':
      return { status, type: 'json', body: { error: { message, type, param: null, code: status } } };
    case 'flat':
      return {
        status,
        type: 'json',
        body: { object: 'error', message, type, param: null, code: status },
      };
    case 'text':
      return { status, type: 'text', body: message };
    case 'html':
      return { status, type: 'html', body: HTML };
    case 'empty':
      return { status, type: 'text', body: '' };
  }
}

export const htmlReply: Reply = { status: 200, type: 'html', body: HTML };

// biome-ignore lint/suspicious/noExplicitAny: an answer's fields are changed as a careless server would.
type Json = any;

/** The honest answer of a completion with one lie in it; any other answer stays as it is. */
export function tell(lie: Lie, honest: Reply): Reply {
  if (honest.status !== 200 || honest.type !== 'json' || !('choices' in (honest.body as object)))
    return honest;
  const body: Json = structuredClone(honest.body);
  const choice = body.choices[0];
  const logprobs: (number | null)[] = choice.logprobs?.token_logprobs ?? [];
  switch (lie) {
    case 'no-token-ids':
      choice.token_ids = null;
      break;
    case 'other-prompt-ids':
      choice.prompt_token_ids = [...(choice.prompt_token_ids ?? []), 0];
      break;
    case 'logprob-missing':
      logprobs.pop();
      break;
    case 'logprob-added':
      logprobs.push(-1);
      break;
    case 'logprob-nan':
      return { ...honest, type: 'json-text', body: withFirstLogprob(body, 'NaN') };
    case 'logprob-impossible':
      return { ...honest, type: 'json-text', body: withFirstLogprob(body, '-9999.0') };
    case 'logprob-positive':
      return { ...honest, type: 'json-text', body: withFirstLogprob(body, '0.5') };
    case 'other-model':
      body.model = `${body.model}-other`;
      break;
    case 'aborted':
      choice.finish_reason = 'abort';
      break;
    case 'usage':
      body.usage.completion_tokens += 1;
      break;
    case 'no-choices':
      body.choices = [];
      break;
    case 'no-tokens':
      choice.token_ids = [];
      choice.logprobs = { ...choice.logprobs, token_logprobs: [], tokens: [], top_logprobs: [] };
      choice.text = '';
      body.usage.completion_tokens = 0;
      break;
  }
  return { ...honest, body };
}

/** JSON text, since NaN is none: the first log-probability of the prompt where asked for, and of the output. */
function withFirstLogprob(body: Json, value: string): string {
  const MARK = 'a log-probability';
  const choice = body.choices[0];
  if (choice.logprobs?.token_logprobs?.length) choice.logprobs.token_logprobs[0] = MARK;
  const scored = choice.prompt_logprobs?.[1];
  if (scored) Object.values<Json>(scored)[0].logprob = MARK;
  return JSON.stringify(body).replaceAll(`"${MARK}"`, value);
}
