/**
 * The contract of a policy endpoint as a list of checks, by plain HTTP and nothing of our client: what the
 * trainer relies on, at the embedded server, at vLLM and at the hostile endpoint's honest side. A check says what
 * it saw; a breach is thrown.
 */

/** Where the contract is held against, and what it may use there. */
export interface ContractTarget {
  /** Without `/v1`. */
  baseUrl: string;
  baseModel: string;
  /** Token ids, at least 4, that make sense as a prompt; none is `endId`. */
  promptIds: number[];
  vocabSize: number;
  endId: number;
  maxModelLen: number;
  /** Of what the answers' log-probabilities are: the raw distribution, or the one after the temperature. */
  logprobs: 'raw' | 'processed';
  /** Folders, absolute as the server sees them: two valid ones of different effect, one too wide, one broken. */
  adapters: { first: string; second: string; tooWide: string; broken: string };
  apiKey?: string;
}

export interface Answer {
  status: number;
  type: string;
  text: string;
  /** The body when it is JSON, else null. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as a client would.
  json: any;
}

/** A target with the calls that the checks make. */
export interface Session extends ContractTarget {
  get(path: string): Promise<Answer>;
  /** `body` that is a string is sent as it is. */
  post(path: string, body: unknown): Promise<Answer>;
  /** A completion of `promptIds` by the base model, 200 or a breach; `more` overrides fields. */
  complete(more?: object): Promise<Completion>;
  load(name: string, path: string): Promise<Answer>;
  unload(name: string): Promise<Answer>;
}

export interface Choice {
  index: number;
  text: string;
  finish_reason: string;
  stop_reason: unknown;
  logprobs: { token_logprobs: (number | null)[]; tokens: string[] } | null;
  token_ids: number[];
  prompt_token_ids: number[];
  prompt_logprobs: (Record<string, { logprob: number; rank: number }> | null)[] | null;
}

export interface Completion {
  model: string;
  choices: Choice[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

export interface Check {
  name: string;
  /** What was seen, for the report. */
  run(session: Session): Promise<string>;
}

/** `known`: a breach that the caller expects of this server, with its reason. */
export type Outcome =
  | { name: string; kind: 'pass' | 'breach'; detail: string }
  | { name: string; kind: 'known'; detail: string; reason: string };

/** The endpoint does not keep the contract. */
export class Breach extends Error {
  override name = 'Breach';
}

export function demand(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Breach(otherwise);
}

export const show = (value: unknown): string => JSON.stringify(value)?.slice(0, 300) ?? 'undefined';

/**
 * Runs `checks` one after the other, all of them. `known`: reasons of breaches that are the server's own, by the
 * check's name; such a check that passes after all is a pass.
 */
export async function runContract(
  target: ContractTarget,
  checks: readonly Check[],
  known: Readonly<Record<string, string>> = {},
): Promise<Outcome[]> {
  const session = openSession(target);
  const outcomes: Outcome[] = [];
  for (const { name, run } of checks) {
    try {
      outcomes.push({ name, kind: 'pass', detail: await run(session) });
    } catch (error) {
      const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      const reason = known[name];
      outcomes.push(
        reason === undefined ? { name, kind: 'breach', detail } : { name, kind: 'known', detail, reason },
      );
    }
  }
  return outcomes;
}

/** Of one answer, milliseconds. */
const DEADLINE_MS = 60_000;

function openSession(target: ContractTarget): Session {
  const headers: Record<string, string> = target.apiKey ? { authorization: `Bearer ${target.apiKey}` } : {};
  async function ask(path: string, init: RequestInit): Promise<Answer> {
    const answer = await fetch(`${target.baseUrl}${path}`, {
      ...init,
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    const text = await answer.text();
    const type = answer.headers.get('content-type') ?? '';
    let json: unknown = null;
    try {
      json = JSON.parse(text);
    } catch {
      // not JSON, as the answer to a load is not
    }
    return { status: answer.status, type, text, json };
  }
  const post = (path: string, body: unknown): Promise<Answer> =>
    ask(path, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return {
    ...target,
    get: (path) => ask(path, { headers }),
    post,
    async complete(more = {}) {
      const answer = await post('/v1/completions', completionBody(target, more));
      demand(answer.status === 200, `${answer.status} instead of 200: ${answer.text.slice(0, 300)}`);
      return answer.json as Completion;
    },
    load: (name, path) => post('/v1/load_lora_adapter', { lora_name: name, lora_path: path }),
    unload: (name) => post('/v1/unload_lora_adapter', { lora_name: name }),
  };
}

/** What a rollout sends: every sampling parameter, ids in and ids out. */
export const completionBody = ({ baseModel, promptIds }: ContractTarget, more: object = {}): object => ({
  model: baseModel,
  prompt: promptIds,
  max_tokens: 8,
  n: 1,
  seed: 11,
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
  stop_token_ids: [],
  logprobs: 0,
  return_token_ids: true,
  ...more,
});

/** An error: this status, and a message in one of the two shapes. */
export function demandError(answer: Answer, statuses: readonly number[], about: RegExp): string {
  demand(
    statuses.includes(answer.status),
    `${answer.status} instead of ${statuses.join(' or ')}: ${answer.text.slice(0, 300)}`,
  );
  const error = answer.json?.error ?? answer.json;
  demand(typeof error?.message === 'string', `no error message in ${answer.text.slice(0, 300)}`);
  demand(about.test(error.message), `the message does not say ${about}: ${error.message}`);
  return `${answer.status} ${error.type}`;
}

/** The output's log-probabilities; one a token, finite and not above 0 (but for rounding). */
export function logprobsOf(choice: Choice): number[] {
  const values = choice.logprobs?.token_logprobs ?? [];
  demand(
    values.length === choice.token_ids.length,
    `${values.length} log-probabilities for ${choice.token_ids.length} tokens`,
  );
  for (const value of values)
    demand(
      typeof value === 'number' && Number.isFinite(value) && value <= 1e-3,
      `${value} is no log-probability`,
    );
  return values as number[];
}

/** Log-probabilities and ranks of `ids[1..]` at temperature 1 by `model`. */
export async function score(
  session: Session,
  model: string,
  ids: number[],
): Promise<{ logprobs: number[]; ranks: number[] }> {
  const answer = await session.complete({ model, prompt: ids, max_tokens: 1, prompt_logprobs: 0 });
  const given = answer.choices[0]!.prompt_logprobs;
  demand(Array.isArray(given) && given.length === ids.length, `prompt_logprobs: ${show(given)}`);
  demand(given[0] === null, `prompt_logprobs.0 is ${show(given[0])}, not null`);
  const entries = ids.slice(1).map((id, i) => {
    const entry = given[i + 1]?.[id];
    demand(
      typeof entry?.logprob === 'number',
      `prompt_logprobs.${i + 1} has no ${id}: ${show(given[i + 1])}`,
    );
    return entry;
  });
  return { logprobs: entries.map(({ logprob }) => logprob), ranks: entries.map(({ rank }) => rank) };
}

export const largestGap = (a: readonly number[], b: readonly number[]): number =>
  a.length === b.length ? Math.max(0, ...a.map((x, i) => Math.abs(x - b[i]!))) : Number.POSITIVE_INFINITY;

export const gapText = (value: number): string => `max |Δ| ${value.toExponential(1)}`;

/** Numbers of two ways to the same value within a float32 server. */
export const SAME = 2e-3;
