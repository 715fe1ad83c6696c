import type { Episode, Ledger } from '../rollout/trajectory.ts';
import type { RewardConfig } from './config.ts';

/** `originalIds`: what the original question alone finds, best first; needed for `marginal` only. */
export function scoreEpisode(
  _episode: Episode,
  _gold: readonly string[],
  _config: RewardConfig,
  _originalIds: readonly string[] | null = null,
): Ledger {
  throw new Error('being written');
}

/**
 * Return from each round on, length `rounds.length + 1`: a call's credit is `returns[call.round]`; the
 * last entry belongs to a planner call that ended the episode without a round.
 */
export function roundReturns(
  _episode: Episode,
  _gold: readonly string[],
  _config: RewardConfig,
  _originalIds: readonly string[] | null = null,
): number[] {
  throw new Error('being written');
}
