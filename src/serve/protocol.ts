/** The messages between the HTTP thread and the engine thread. Plain data only: they are cloned. */

/** Where a worker finds its engine: a module that exports `openModel` (see `engine-module.ts`). */
export interface WorkerInit {
  engineModule: string;
  modelFolder: string;
  threads: number;
  limits: EngineLimits;
}

export interface EngineLimits {
  /** Sequences decoded at once. */
  maxRows: number;
  /** Bytes of key/value cache that running sequences may come to need. */
  cacheBytes: number;
  /** Bytes kept for recently seen prompts. */
  promptCacheBytes: number;
  /** Padded tokens of one prefill call. */
  prefillTokens: number;
  maxLoraRank: number;
}

/** `uid` of an adapter as the worker gave it out; 0 is the base model. */
export type AdapterUid = number;

/**
 * One completion request: every prompt gets `n` samples of at most `maxTokens`; sample i draws from the
 * stream of `seed + i`. `stopIds` end a sample and stay part of it. `score` also asks for the
 * log-probability of every prompt token, at temperature 1.
 */
export interface GenerateJob {
  id: number;
  adapter: AdapterUid;
  prompts: number[][];
  n: number;
  seed: number;
  maxTokens: number;
  temperature: number;
  /** What of the distribution is sampled (`nucleus.ts`): 1 and 0 for all of it. */
  topP: number;
  topK: number;
  stopIds: number[];
  score: boolean;
  salt: string;
}

export type ToWorker =
  | ({ kind: 'generate' } & GenerateJob)
  | { kind: 'cancel'; id: number }
  | { kind: 'load'; id: number; name: string; folder: string }
  | { kind: 'unload'; adapter: AdapterUid }
  | { kind: 'stats'; id: number }
  /** Finish the calculation under way, no other, and end the thread. */
  | { kind: 'close' };

/** A finished sample: `index` is prompt × n + i; `logprobs` (nats) one for each of `ids`. */
export interface SampleResult {
  kind: 'sample';
  id: number;
  index: number;
  ids: number[];
  logprobs: number[];
  finish: 'stop' | 'length';
}

/** A scored prompt, `logprobs` and `ranks` for `ids[1..]`; rank 1 is the most likely token. */
export interface ScoreResult {
  kind: 'score';
  id: number;
  index: number;
  logprobs: number[];
  ranks: number[];
}

export interface FailedResult {
  kind: 'failed';
  id: number;
  message: string;
}

export type EngineResult = SampleResult | ScoreResult | FailedResult;

export type LoadOutcome =
  | { kind: 'ok'; adapter: AdapterUid; fingerprint: string }
  | { kind: 'not-found'; message: string }
  | { kind: 'refused'; message: string };

export interface EngineStats {
  waiting: number;
  running: number;
  /** Adapters whose weights are held, retired ones with requests in flight included. */
  adapters: number;
  /** Prompts given to the engine so far, and prompts answered from the cache. */
  prefilled: number;
  prefixHits: number;
  steps: number;
  sampledTokens: number;
  promptCacheBytes: number;
}

export type FromWorker =
  | { kind: 'ready' }
  | { kind: 'results'; results: EngineResult[] }
  | { kind: 'loaded'; id: number; outcome: LoadOutcome }
  | { kind: 'stats'; id: number; stats: EngineStats };
