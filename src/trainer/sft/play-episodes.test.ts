import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import type { Query } from '../../env/types.ts';
import { hasFailed, type PlayOptions, playEpisodes } from './play-episodes.ts';

const queriesOf = (count: number): Query[] =>
  Array.from({ length: count }, (_, i) => ({ id: `q${i}`, query: 'x', gold: ['a'] }));
const optionsOf = (change: Partial<PlayOptions> = {}): PlayOptions => ({
  rollouts: 2,
  concurrency: 3,
  signal: new AbortController().signal,
  player: 'the teacher',
  fix: 'start it',
  ...change,
});
const named = async ({ id }: Query, rollout: number) => ({ name: `${id}/${rollout}` });

describe('playEpisodes', () => {
  it('gives results by question and rollout, whichever ends first, with so many questions at once', async () => {
    let under = 0;
    let most = 0;
    const done: number[] = [];
    const play = async (query: Query, rollout: number) => {
      most = Math.max(most, ++under);
      // The later one starts, the sooner it ends.
      await wait(8 - Number(query.id.slice(1)) - rollout);
      under--;
      return named(query, rollout);
    };
    const played = await playEpisodes(
      queriesOf(7),
      play,
      optionsOf({ onQuestion: (n, total) => done.push(n / total) }),
    );
    expect(played).toEqual(await Promise.all(queriesOf(7).flatMap((q) => [named(q, 0), named(q, 1)])));
    expect(most).toBe(6);
    expect(done).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => n / 7));
  });

  it('keeps a failed one in its place with its reason, however many fail once one has succeeded', async () => {
    const play = async (query: Query, rollout: number) => {
      if (query.id !== 'q0') throw new Error(`no ${query.id}`);
      return named(query, rollout);
    };
    const played = await playEpisodes(queriesOf(50), play, optionsOf({ rollouts: 1, concurrency: 1 }));
    expect(played.slice(0, 3)).toEqual([{ name: 'q0/0' }, { failure: 'no q1' }, { failure: 'no q2' }]);
    expect(played.filter(hasFailed)).toHaveLength(49);
  });

  it('is an error of the player when all fail, and gives up after 32 without a success', async () => {
    let tried = 0;
    const play = async (): Promise<object> => {
      tried++;
      throw new Error('refused');
    };
    const all = playEpisodes(queriesOf(3), play, optionsOf());
    await expect(all).rejects.toThrow(UserError);
    await expect(all).rejects.toThrow(
      /the teacher: all 6 episodes failed, the last with: refused\n.*start it/,
    );
    tried = 0;
    const many = playEpisodes(queriesOf(1000), play, optionsOf());
    await expect(many).rejects.toThrow('the first 32 episodes failed');
    // Those under way with the last are tried too.
    expect(tried).toBeLessThan(60);
  });

  it('passes on what the user can mend and the reason of the signal, when nothing is under way any more', async () => {
    const mend = new UserError('no key', 'here');
    const controller = new AbortController();
    const reason = new Error('interrupted');
    let under = 0;
    const play = async (query: Query, _: number, signal: AbortSignal): Promise<object> => {
      under++;
      try {
        await wait(1);
        if (query.id === 'q1') throw mend;
        if (query.id === 'stop') controller.abort(reason);
        await wait(10_000, undefined, { signal });
        return {};
      } finally {
        under--;
      }
    };
    await expect(playEpisodes(queriesOf(3), play, optionsOf())).rejects.toBe(mend);
    expect(under).toBe(0);
    const { signal } = controller;
    const stopping = [{ id: 'stop', query: 'x', gold: ['a'] }, ...queriesOf(1)];
    await expect(playEpisodes(stopping, play, optionsOf({ signal }))).rejects.toBe(reason);
    expect(under).toBe(0);
  });

  it('gives nothing for no questions', async () => {
    expect(await playEpisodes([], named, optionsOf())).toEqual([]);
  });
});
