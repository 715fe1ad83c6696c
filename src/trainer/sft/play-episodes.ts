/** Episodes of a teacher, many at once, where one that fails does not end the rest. */
import { allOrStop } from '../../base/all-or-stop.ts';
import { messageOf, UserError } from '../../base/errors.ts';
import type { Query } from '../../env/types.ts';
import { createLimit } from '../../rollout/limit.ts';

/** What an episode came to, or why it came to nothing. */
export type Played<T> = T | { failure: string };

export const hasFailed = <T extends object>(played: Played<T>): played is { failure: string } =>
  'failure' in played;

/** So many failures without one success are not bad luck: the rest is not tried. */
const HOPELESS = 32;

export interface PlayOptions {
  /** Episodes a question, ≥ 1. */
  rollouts: number;
  /** Questions under way at once, ≥ 1. */
  concurrency: number;
  signal: AbortSignal;
  /** Who plays, as an error of all episodes names it, and what to do about it. */
  player: string;
  fix: string;
  /** Told after each question. */
  onQuestion?(done: number, total: number): void;
}

/**
 * `play` for each rollout of each question; results in order of question and rollout, a failed one with its reason.
 *
 * @throws UserError when all episodes failed, or the first 32 to end; those of `play`; `signal.reason` when it fires.
 * Nothing is under way any more then.
 */
export async function playEpisodes<T extends object>(
  queries: readonly Query[],
  play: (query: Query, rollout: number, signal: AbortSignal) => Promise<T>,
  { rollouts, concurrency, player, fix, onQuestion, ...options }: PlayOptions,
): Promise<Played<T>[]> {
  const limit = createLimit(concurrency);
  let succeeded = 0;
  let failed = 0;
  let done = 0;
  const hopeless = (failure: string, of: string): UserError =>
    new UserError(`${of} failed, the last with: ${failure}`, player, fix);
  const one = async (query: Query, rollout: number, signal: AbortSignal): Promise<Played<T>> => {
    try {
      signal.throwIfAborted();
      const played = await play(query, rollout, signal);
      succeeded++;
      return played;
    } catch (error) {
      // A call that a signal ended may say so in words of its own.
      signal.throwIfAborted();
      if (error instanceof UserError) throw error;
      const failure = messageOf(error);
      if (++failed >= HOPELESS && succeeded === 0) throw hopeless(failure, `the first ${failed} episodes`);
      return { failure };
    }
  };
  const played = await allOrStop(options.signal, (signal) =>
    queries.map((query) =>
      limit(async () => {
        const rolled = await allOrStop(signal, (stop) =>
          Array.from({ length: rollouts }, (_, rollout) => one(query, rollout, stop)),
        );
        onQuestion?.(++done, queries.length);
        return rolled;
      }),
    ),
  );
  const all = played.flat();
  const last = all.findLast(hasFailed);
  if (last && succeeded === 0)
    throw hopeless(last.failure, all.length === 1 ? 'the episode' : `all ${all.length} episodes`);
  return all;
}
