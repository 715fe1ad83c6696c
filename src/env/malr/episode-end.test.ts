import { describe, expect, it } from 'vitest';
import type { Policy } from '../types.ts';
import type { MalrConfig } from './config.ts';
import { runEpisode } from './episode.ts';
import { act, malrConfig as config, query, scripted, toolsOf } from './test-support.ts';

describe('the end', () => {
  const table = { 甲: ['a1', 'a2'], 乙: ['b1', 'b2'], 丙: ['c1'], 丁: ['d1', 'd2'] };
  const single = (text: string, agent = 'rewrite_single') => [act(agent), text];
  const end = async (texts: string[], settings: Partial<MalrConfig> = {}) => {
    const policy = scripted(texts);
    const episode = await runEpisode(query, toolsOf(table), policy, { ...config, ...settings });
    expect(policy.seen).toHaveLength(texts.length);
    return { ...episode, end: `${episode.termination.kind}: ${episode.termination.reason}` };
  };

  it('cap of four rounds, without a fifth question to the planner', async () => {
    const texts = [...single('甲'), ...single('乙'), ...single('丙'), ...single('丁')];
    const episode = await end(texts);
    expect(episode.end).toBe('cap: 4 rounds');
    expect(episode.rounds.map((round) => round.poolSize)).toEqual([2, 4, 5, 7]);
    expect((await end(single('甲'), { maxRounds: 1 })).end).toBe('cap: 1 rounds');
  });

  it('two rounds without growth', async () => {
    const texts = [...single('甲'), ...single('甲', 'repair'), ...single('甲', 'supportive_law')];
    expect((await end(texts)).end).toBe('no-growth: 2 rounds without growth');
  });

  it('same agent again without growth, before it runs', async () => {
    const texts = [...single('甲'), ...single('甲', 'repair'), act('repair')];
    const episode = await end(texts);
    expect(episode.end).toBe('no-growth: same agent again without growth');
    expect(episode.rounds).toHaveLength(2);
    expect(episode.calls.at(-1)).toMatchObject({ round: 2, action: 'repair' });
  });

  it('empty pool after the first round', async () => {
    for (const text of ['无', 'xxx']) {
      const episode = await end(single(text));
      expect(episode).toMatchObject({ end: 'no-growth: empty pool', pool: [] });
    }
  });

  it('diminishing returns, when set to stop', async () => {
    const texts = [...single('甲'), ...single('丙')];
    expect((await end([...texts, act('terminate')])).end).toBe('planner: terminate');
    expect((await end(texts, { diminishing: 'stop' })).end).toBe('no-growth: diminishing returns');
  });

  it('terminate before any search is invalid unless allowed', async () => {
    expect(await end([act('terminate')])).toMatchObject({
      end: 'invalid: terminate before any search',
      rounds: [],
    });
    const allowed = await end([act('terminate')], { allowEarlyTerminate: true });
    expect(allowed).toMatchObject({ end: 'planner: terminate', pool: [] });
  });

  it.each([
    ['让我想想', 'planner output: not JSON'],
    [act('dance'), 'planner output: unknown action'],
    [`${act('repair')}…`, 'planner output: cut by the length limit'],
  ])('planner says %j: invalid', async (text, reason) => {
    const episode = await end([...single('甲'), text]);
    expect(episode.termination).toEqual({ kind: 'invalid', reason });
    expect(episode.pool).toEqual(['a1', 'a2']);
    expect(episode.calls.at(-1)).toMatchObject({ round: 1, action: null });
  });

  it('a valid answer that was cut by the length limit is invalid all the same', async () => {
    const policy = scripted([act('repair')]);
    const cut: Policy = async (call) => ({ ...(await policy(call)), finishReason: 'length' });
    const episode = await runEpisode(query, toolsOf(table), cut, config);
    expect(episode.termination.kind).toBe('invalid');
    expect(episode.calls[0]!.action).toBeNull();
  });

  it('`original` is an unknown action where it is not allowed', async () => {
    const episode = await end([act('original')], { allowOriginal: false });
    expect(episode.end).toBe('invalid: planner output: unknown action');
  });

  it.each([
    [[act('repair'), ''], 'repair output: empty'],
    [[act('repair'), '甲…'], 'repair output: cut by the length limit'],
    [[act('decompose'), '甲'], 'decompose output: not JSON'],
    [[act('decompose'), '[]'], 'decompose output: no sub-query'],
  ])('rewriter gives %j: invalid', async (texts, reason) => {
    const episode = await end([...single('甲'), ...texts]);
    expect(episode.termination).toEqual({ kind: 'invalid', reason });
    expect(episode.rounds[1]).toEqual({
      agent: texts[0]!.includes('repair') ? 'repair' : 'decompose',
      queries: [],
      dropped: [{ query: texts[1], reason }],
      newIds: [],
      poolSize: 2,
    });
  });

  it('tolerates as many unusable rewrites as it is set to', async () => {
    const settings = { toleratedBadRewrites: 1 };
    const once = [...single('甲'), ...single(''), ...single('乙', 'repair'), act('terminate')];
    expect((await end(once, settings)).end).toBe('planner: terminate');
    const twice = [...single('甲'), ...single(''), ...single('乙', 'repair'), ...single('')];
    expect((await end(twice, settings)).end).toBe('invalid: rewrite_single output: empty');
  });
});
