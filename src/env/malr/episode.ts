import type { Episode } from '../../rollout/trajectory.ts';
import type { Article, Hit, Policy, Query, Reranker, Retriever } from '../types.ts';
import type { MalrConfig } from './config.ts';

/** What an episode searches with. */
export interface MalrTools {
  retriever: Retriever;
  reranker: Reranker;
  /** Title and law of an article; undefined for an unknown id. */
  article(id: string): Pick<Article, 'title' | 'law'> | undefined;
  /** Fuses the kept lists of all searches, in search order, into one ranking of ids without duplicates. */
  rankPool(searches: Hit[][]): string[];
}

/** One search that was made: the round (from 0), its query, and what was kept of it, best first. */
export interface Search {
  round: number;
  query: string;
  hits: Hit[];
}

/** `searches` in order; `empty`: nothing was found, the answer is "no relevant statute". */
export type MalrEpisode = Episode & { searches: Search[]; empty: boolean };

export async function runEpisode(
  _query: Query,
  _tools: MalrTools,
  _policy: Policy,
  _config: MalrConfig,
): Promise<MalrEpisode> {
  throw new Error('being written');
}
