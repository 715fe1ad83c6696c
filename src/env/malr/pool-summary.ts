import type { Round } from '../episode.ts';
import type { Action } from './agents.ts';
import { isDiminishing } from './stop-rules.ts';

/** The state of the pool as the planner is told it. The paper names count, diversity and growth, and defines none. */
export interface PoolSummary {
  /** The round being planned, from 0. */
  round: number;
  /** Articles found so far. */
  count: number;
  /** Distinct laws among them / articles, (0, 1]; 0 for an empty pool. An article without a law is its own. */
  diversity: number;
  /** Articles new in the last round; 0 before the first. */
  growth: number;
  /** The last round brought fewer than two new articles; false before the first. */
  diminishing: boolean;
  /** What ran so far, in order. */
  agents: Action[];
}

/** Summarises the pool members (ids without duplicates) after `rounds`. */
export function summarisePool(
  members: readonly string[],
  rounds: readonly Round[],
  lawOf: (id: string) => string | undefined,
): PoolSummary {
  const laws = new Set(members.map((id) => lawOf(id) ?? `article ${id}`));
  return {
    round: rounds.length,
    count: members.length,
    diversity: members.length === 0 ? 0 : laws.size / members.length,
    growth: rounds.at(-1)?.newIds.length ?? 0,
    diminishing: isDiminishing(rounds),
    agents: rounds.map((round) => round.agent as Action),
  };
}
