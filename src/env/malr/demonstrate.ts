import type { Random } from '../../base/random.ts';
import type { TermTable } from '../terms.ts';
import type { Article, Message, Query } from '../types.ts';

/** What the player may know about the pool; without it the planner guesses from the messages. */
export interface PoolState {
  pool: readonly string[];
}

export interface PlayerInput {
  query: Query;
  articles: ReadonlyMap<string, Article>;
  terms: TermTable;
  random: Random;
  /** Share of terms dropped at random, [0, 1); 0.15 by default. */
  noise?: number;
}

export interface PlayerCall {
  role: string;
  round: number;
  messages: readonly Message[];
  state?: PoolState;
}

/** One call of one demonstration episode: the prompt as the policy sees it and a good answer. */
export interface Demonstration {
  queryId: string;
  role: string;
  round: number;
  messages: Message[];
  text: string;
}

export function demonstrationPolicy(_input: PlayerInput): (call: PlayerCall) => string {
  throw new Error('not yet');
}
