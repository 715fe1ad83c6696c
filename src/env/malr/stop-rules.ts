/**
 * When an episode ends (LegalMALR, arXiv 2601.17692, section 3 and its error handling). One pure function
 * a rule; `stopBefore` and `stopAfter` put them in order.
 *
 * An INVALID termination, which the reward charges with −5 once, is exactly one of these:
 * - the planner's output was cut by the length limit, does not parse, or names an action not on offer;
 * - `terminate` before anything was searched, unless `allowEarlyTerminate`;
 * - a rewriter's output that was cut by the length limit, is empty or is malformed, beyond
 *   `toleratedBadRewrites` of them.
 *
 * Every other end is valid: `planner` (it chose `terminate`), `cap`, and `no-growth` with its rule as the
 * reason. A reformulation dropped for unknown terms is not invalid: it costs its round. Whatever was found
 * before an invalid end stays in the pool. A search or policy call that *fails* ends in no termination at
 * all: `runEpisode` rejects, and the rollout is a failed one, never a score.
 */
import type { Round, Termination } from '../episode.ts';
import type { Action } from './agents.ts';
import type { MalrConfig } from './config.ts';

/** Fewer new articles than this in a round are diminishing returns (the paper's workflow). */
const DIMINISHING_BELOW = 2;

/** Whether the last round brought diminishing returns; growth is counted over all its searches together. */
export function isDiminishing(rounds: readonly Round[]): boolean {
  const last = rounds.at(-1);
  return last !== undefined && last.newIds.length < DIMINISHING_BELOW;
}

/** Nothing found in the first round: most likely nothing relevant exists (error handling). */
export function isEmptyPool(rounds: readonly Round[]): boolean {
  return rounds.length > 0 && rounds.at(-1)!.poolSize === 0;
}

/** The last `n` rounds brought nothing new (error handling; the paper's n is 2). */
export function isWithoutGrowth(rounds: readonly Round[], n: number): boolean {
  return rounds.length >= n && rounds.slice(-n).every((round) => round.newIds.length === 0);
}

/** The planner picks the agent of the last round again although that round brought nothing new (error handling). */
export function isSameAgentWithoutGrowth(rounds: readonly Round[], action: Action): boolean {
  const last = rounds.at(-1);
  return last !== undefined && last.agent === action && last.newIds.length === 0;
}

/** All rounds are used up (the paper's cap is 4). */
export function isCapReached(rounds: readonly Round[], maxRounds: number): boolean {
  return rounds.length >= maxRounds;
}

/** `terminate` before anything was searched. */
function isEarlyTerminate(rounds: readonly Round[], action: Action): boolean {
  return action === 'terminate' && rounds.length === 0;
}

/** Decides on a parsed planner action before it runs: null to run it. */
export function stopBefore(rounds: readonly Round[], action: Action, config: MalrConfig): Termination | null {
  if (isEarlyTerminate(rounds, action) && !config.allowEarlyTerminate)
    return { kind: 'invalid', reason: 'terminate before any search' };
  if (action === 'terminate') return { kind: 'planner', reason: 'terminate' };
  if (isSameAgentWithoutGrowth(rounds, action))
    return { kind: 'no-growth', reason: 'same agent again without growth' };
  return null;
}

/** Decides after a round; the first rule that holds gives the reason. Null to go on. */
export function stopAfter(rounds: readonly Round[], config: MalrConfig): Termination | null {
  if (isEmptyPool(rounds)) return { kind: 'no-growth', reason: 'empty pool' };
  if (config.diminishing === 'stop' && isDiminishing(rounds))
    return { kind: 'no-growth', reason: 'diminishing returns' };
  if (isWithoutGrowth(rounds, config.noGrowthRounds))
    return { kind: 'no-growth', reason: `${config.noGrowthRounds} rounds without growth` };
  if (isCapReached(rounds, config.maxRounds)) return { kind: 'cap', reason: `${config.maxRounds} rounds` };
  return null;
}
