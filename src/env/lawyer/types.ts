/**
 * What the Lawyer of Legal-R1 acts in: its actions, the evidence they bring, and the doors to the outside. The
 * Lawyer decides turn by turn whether to search statutes with an intent, search precedents, or stop; a judge
 * that is never trained writes the answer from what was found.
 */
import type { Message, Query } from '../types.ts';

/** One turn of the policy, parsed. */
export type LawyerAction =
  | { kind: 'STATUTE'; query: string; intent: string }
  | { kind: 'PRECEDENT'; query: string; charges: string[] }
  | { kind: 'STOP' };

/** One article or case, as the policy and the judge see it. */
export interface Evidence {
  source: 'statute' | 'precedent';
  id: string;
  /** Its place in the search that found it, from 0. */
  rank: number;
  title: string;
  text: string;
  /** Ids of the articles that it is (a statute) or that it applies (a precedent), as far as the corpus has them. */
  articles: string[];
}

/** Articles for a query, best first: those in force on `date` only (`YYYY-MM-DD`; null: whatever the date). */
export interface StatuteSearch {
  search(request: StatuteRequest): Promise<Evidence[]>;
  /** Fraction of the text's terms that the corpus does not know, in [0, 1]; 1 for no terms at all. */
  unknownTermShare(text: string): number;
}
export interface StatuteRequest {
  /** The question as it was put. */
  original: string;
  query: string;
  intent: string;
  date: string | null;
}

/** Cases for a query, in the order of their selection; `exclude`: ids that may not be found (the question's own case). */
export interface PrecedentSearch {
  search(request: PrecedentRequest): Promise<Evidence[]>;
  /** As of a statute search, for the facts of the cases: they are told in other words than statutes use. */
  unknownTermShare(text: string): number;
}
export interface PrecedentRequest {
  original: string;
  query: string;
  charges: readonly string[];
  exclude: readonly string[];
}

/** What the judge answers: the text, and what of it can be compared, as far as it was asked for. */
export interface Answer {
  text: string;
  /** Ids of articles of the corpus. */
  articles: string[];
  /** Letters of a multiple choice, upper case, sorted. */
  choices: string[];
  /** For questions that ask for a number, such as a term in months. */
  number: number | null;
}

/** Writes the answer from everything that the episode found. Rejects when it cannot: then the rollout failed. */
export interface Judge {
  /** Named in logs and records; a stand-in says that it is one. */
  name: string;
  answer(question: Pick<Query, 'query' | 'answer'>, evidence: readonly Evidence[]): Promise<Answer>;
}

/**
 * A model that helps and is never trained: teacher, judge, condenser, reranker. Rejects after its own retries;
 * never gives an empty text.
 */
export interface ChatModel {
  name: string;
  chat(messages: readonly Message[], options: ChatOptions): Promise<string>;
}
export interface ChatOptions {
  maxTokens: number;
  temperature: number;
  /** Names one of several samples of the same question, where each is to be kept as its own answer. */
  sample?: string;
  /** Throws for a text that is of no use to who asks; a model whose answers are kept rejects with that, and keeps none. */
  check?: (text: string) => void;
}
