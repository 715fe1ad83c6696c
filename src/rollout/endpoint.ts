/** The client of a policy endpoint: `lexpo serve` or vLLM, by the OpenAI protocol with token ids. */
import type { PolicyOutput } from '../env/types.ts';

export interface EndpointOptions {
  /** With or without the trailing `/v1`. */
  baseUrl: string;
  apiKey?: string | undefined;
  /** Deadline of one call, milliseconds. */
  deadlineMs: number;
  /** Completions under way at once; more wait their turn, within their deadline. */
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
  root: string | null;
  /** Null for the base model. */
  parent: string | null;
  maxModelLen: number | null;
}

export interface Endpoint {
  complete(call: CompletionCall): Promise<PolicyOutput & { model: string }>;
  /** Natural log-probabilities of `ids[1..]` given what precedes each, at temperature 1 `[ids.length − 1]`. */
  promptLogprobs(model: string, ids: number[]): Promise<number[]>;
  /** Loads the adapter in folder `path` (absolute) under `name`; already loaded from there counts as done. */
  loadAdapter(name: string, path: string): Promise<void>;
  unloadAdapter(name: string): Promise<void>;
  listModels(): Promise<ModelCard[]>;
  health(): Promise<boolean>;
}

export type FailureReason =
  | 'connection'
  | 'deadline'
  | 'http'
  | 'unknown-model'
  | 'wrong-model'
  | 'too-long'
  | 'overloaded'
  | 'invalid-answer';

/** Why a call to the endpoint gave nothing usable. A failed rollout, never a score. */
export class RolloutFailure extends Error {
  override name = 'RolloutFailure';
  constructor(
    readonly reason: FailureReason,
    message: string,
    readonly status?: number,
  ) {
    super(message);
  }
}

export function createEndpoint(_options: EndpointOptions): Endpoint {
  throw new Error('not yet');
}
