/** What an environment is made of, and the two doors it has to the outside: retrieval and the policy. */

export interface Article {
  id: string;
  title: string;
  text: string;
  /** The law the article belongs to, where the corpus says so. */
  law?: string | undefined;
  /** First and last day in force, `YYYY-MM-DD`; absent: since ever, until further notice. */
  from?: string | undefined;
  to?: string | undefined;
}

/** A labelled question: `gold` are ids of articles of the corpus; none only where the Lawyer trains on its `answer`. */
export interface Query {
  id: string;
  query: string;
  gold: string[];
  /** The day that is asked about, `YYYY-MM-DD`: only law in force then is evidence. */
  date?: string | undefined;
  /** What a right answer is; absent: the gold articles. */
  answer?: ExpectedAnswer | undefined;
  /** Precedents that may not be found: the question's own case. */
  exclude?: string[] | undefined;
}

/** `articles`: the gold. `choices`: letters. `number`: right within `tolerance` (≥ 0), such as months. */
export type ExpectedAnswer =
  | { kind: 'articles' }
  | { kind: 'choice'; choices: string[] }
  | { kind: 'number'; value: number; tolerance: number }
  | { kind: 'text'; text: string };

/** One found article; `score` is comparable within one result list only. */
export interface Hit {
  id: string;
  score: number;
}

/**
 * What is searched: a reformulation, and the original question it came from. A retriever may weigh both
 * (`anchor` in the config); `rewrite === original` is a plain search of the question.
 */
export interface SearchRequest {
  original: string;
  rewrite: string;
}

export interface Retriever {
  /** The best `k` articles, best first, ties by id. Deterministic. */
  search(request: SearchRequest, k: number): Promise<Hit[]>;
  /** Fraction of the text's terms that the corpus does not know, in [0, 1]; 1 for no terms at all. */
  unknownTermShare(text: string): number;
}

export interface Reranker {
  /** The best `keep` of `hits`, reordered against the *original* question. Deterministic. */
  rerank(original: string, hits: Hit[], keep: number): Promise<Hit[]>;
}

export interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** The policy's answer to one agent call, as the sampler gave it. */
export interface PolicyOutput {
  promptIds: number[];
  outputIds: number[];
  logprobs: number[];
  temperature: number;
  finishReason: 'stop' | 'length';
  text: string;
}

/** One call of the policy within an episode; `callIndex` counts from 0 and names its random stream. */
export type Policy = (call: {
  role: string;
  round: number;
  callIndex: number;
  messages: Message[];
}) => Promise<PolicyOutput>;
