import { describe, expect, it } from 'vitest';
import { episodeSchema } from '../episode.ts';
import { type LawyerTools, runLawyerEpisode } from './episode.ts';
import { buildLawyerMessages } from './prompts/build-messages.ts';
import { config, query, run, saying, statute, toolsOf } from './test-support.ts';
import type { Evidence } from './types.ts';

describe('a whole episode', () => {
  it('searches, shows, fills the pool and is answered', async () => {
    const { tools, asked, judged } = toolsOf();
    const { policy, seen } = saying(['法：量刑：盗窃 21', '案：手机', '法：要件：盗窃 13']);
    const episode = await runLawyerEpisode(query, tools, policy, config);
    expect(asked).toEqual([
      { original: query.query, query: '盗窃 21', intent: '量刑', date: '2021-01-01' },
      { original: query.query, query: '手机', charges: [], exclude: ['p9'] },
      { original: query.query, query: '盗窃 13', intent: '要件', date: '2021-01-01' },
    ]);
    expect(episode.termination).toEqual({ kind: 'planner', reason: 'STOP' });
    expect(episode.calls.map(({ action, round }) => [action, round])).toEqual([
      ['STATUTE', 0],
      ['PRECEDENT', 1],
      ['STATUTE', 2],
      ['STOP', 3],
    ]);
    expect(episode.rounds.map(({ agent, newIds, poolSize }) => [agent, newIds, poolSize])).toEqual([
      ['STATUTE', ['a2', 'a1'], 2],
      ['PRECEDENT', ['a8', 'a9'], 4],
      ['STATUTE', ['a3'], 5],
    ]);
    expect(episode.rounds[0]!.evidence![0]).toMatchObject({ id: 'a2', text: 'a2盗窃…' });
    // Statutes by place, then what the precedents apply.
    expect(episode.pool).toEqual(['a1', 'a2', 'a3', 'a8', 'a9']);
    expect(episode.answer).toMatchObject({ by: 'judge', articles: ['a2', 'a1', 'p1', 'a3'] });
    expect(judged).toHaveLength(1);
    expect(seen.at(-1)!.at(-1)!.content).toBe(
      '偷了手机怎么判｜法a2盗窃…；a1盗窃…｜案判决｜法a1盗窃…；a3盗窃…｜轮4',
    );
    expect(episodeSchema.parse(episode)).toEqual(episode);
  });

  it('can be rebuilt, prompt by prompt, from its calls and rounds', async () => {
    for (const prompts of ['zh', 'en', 'zh-compact'] as const) {
      const turns =
        prompts === 'zh-compact'
          ? ['法：量刑：盗窃 21', '胡', '案：手机', '法：要件：盗窃 21']
          : [
              '{"action":"STATUTE","query":"盗窃 21","intent":"量刑"}',
              'hm',
              '{"action":"PRECEDENT","query":"手机"}',
              '{"action":"STATUTE","query":"盗窃21","intent":"要件"}',
            ];
      const { policy, seen } = saying(turns, prompts === 'zh-compact' ? '止' : '{"action":"STOP"}');
      const shown = { ...config, prompts };
      const episode = await runLawyerEpisode(query, toolsOf().tools, policy, shown);
      expect(episode.correctives).toBe(1);
      const stored = episodeSchema.parse(JSON.parse(JSON.stringify(episode)));
      for (const [i, { round }] of stored.calls.entries())
        expect(
          buildLawyerMessages(query.query, stored.calls.slice(0, i), stored.rounds.slice(0, round), shown),
        ).toEqual(seen[i]);
    }
  });

  it('tells an instruct model its turns, what was found, and what it did wrong', async () => {
    const turns = ['?', '{"action":"STATUTE","query":"盗窃 1","intent":"量刑"}'];
    const { policy, seen } = saying(turns, '{"action":"STOP"}');
    await runLawyerEpisode(query, toolsOf().tools, policy, { ...config, prompts: 'en' });
    expect(seen.map((messages) => messages.map(({ role }) => role[0]).join(''))).toEqual([
      'su',
      'suau',
      'suauau',
    ]);
    expect(seen[0]![1]!.content).toBe('偷了手机怎么判\n\nTurn 1 of 6.');
    expect(seen[1]!.at(-1)!.content).toContain('could not be read (no JSON object at its end)');
    expect(seen[2]!.at(-1)!.content).toBe(
      'Found:\n1. 第a1条: a1盗窃…\n\nTurn 3 of 6. Go on, switch the source, or STOP.',
    );
  });
});

describe('searches that are not made', () => {
  it('a repeated one, whatever its spacing and intent; one of unknown words; precedents where there are none', async () => {
    const { tools, asked } = toolsOf({ precedents: null });
    const episode = await run(
      ['法：量刑：盗窃 1', '法：要件：盗窃，1', '法：量刑：胡说', '案：手机'],
      {},
      tools,
    );
    expect(asked).toHaveLength(1);
    expect(episode.rounds.map(({ queries, dropped }) => [queries.length, dropped[0]?.reason])).toEqual([
      [1, undefined],
      [0, 'repeated'],
      [0, 'unknown terms'],
      [1, undefined],
    ]);
    expect(episode.pool).toEqual(['a1']);
  });
  it('one of unknown words was not made: asked again, its words are what is told, not that it was made', async () => {
    const again = await run(['法：量刑：胡说', '法：要件：胡说', '法：量刑：1']);
    expect(again.rounds.map(({ dropped }) => dropped[0]?.reason)).toEqual([
      'unknown terms',
      'unknown terms',
      undefined,
    ]);
  });
  it('unknown words are those unknown to what is searched', async () => {
    const { tools, asked } = toolsOf();
    const episode = await run(['案：瞎编', '法：量刑：瞎编 1', '法：量刑：胡说', '案：胡说'], {}, tools);
    expect(episode.rounds.map(({ dropped }) => dropped.length)).toEqual([1, 0, 1, 0]);
    expect(asked).toMatchObject([{ query: '瞎编 1' }, { query: '胡说' }]);
  });
});

it('the judge reads each piece once, in full, at its best place; a case without articles of the corpus counts as found', async () => {
  const { tools, judged } = toolsOf();
  const statutes: LawyerTools['statutes'] = {
    unknownTermShare: () => 0,
    search: async ({ query: asked }) => [...asked].map((digit, rank) => ({ ...statute(`a${digit}`), rank })),
  };
  await run(['法：量刑：12', '法：量刑：23', '法：量刑：31'], {}, { ...tools, statutes });
  expect(judged).toEqual([
    [
      query,
      [
        { ...statute('a1'), rank: 0 },
        { ...statute('a2'), rank: 0 },
        { ...statute('a3'), rank: 0 },
      ],
    ],
  ]);
  const foreign: Evidence = {
    source: 'precedent',
    id: 'p2',
    rank: 0,
    title: '',
    text: '判决',
    articles: ['zz'],
  };
  const precedents = { unknownTermShare: () => 0, search: async () => [foreign] };
  const episode = await run(['案：手机'], {}, { ...tools, precedents });
  expect(episode).toMatchObject({ termination: { kind: 'planner' }, pool: [], answer: { articles: ['p2'] } });
});

it('precedents come after the statutes, the article that most of them apply first; the pool ends at its limit', async () => {
  const cases: Record<string, string[]> = { 甲: ['a7', 'a6'], 乙: ['a6', 'a1'], 丙: ['a6', 'a5'] };
  const { tools } = toolsOf();
  const precedents: LawyerTools['precedents'] = {
    unknownTermShare: () => 0,
    search: async ({ query: asked }) => [
      { source: 'precedent', id: asked, rank: 0, title: '', text: '', articles: cases[asked]! },
    ],
  };
  const lines = ['案：甲', '案：乙', '法：量刑：21', '案：丙'];
  const episode = await run(lines, {}, { ...tools, precedents });
  expect(episode.pool).toEqual(['a2', 'a1', 'a6', 'a7', 'a5']);
  expect(episode.rounds.map(({ newIds }) => newIds.join())).toEqual(['a7,a6', 'a1', 'a2', 'a5']);
  const short = await run(lines, { poolLimit: 3 }, { ...tools, precedents });
  expect(short.pool).toEqual(['a2', 'a1', 'a6']);
});

it('evidence is cut between characters, and only where it is longer than what is shown', async () => {
  const { tools } = toolsOf();
  const shownOf = async (text: string) => {
    const statutes = { unknownTermShare: () => 0, search: async () => [{ ...statute('a1'), text }] };
    const { rounds } = await run(['法：量刑：1'], {}, { ...tools, statutes });
    return rounds[0]!.evidence![0]!.text;
  };
  expect(await shownOf('一二三四')).toBe('一二三四');
  expect(await shownOf('一二三😀五')).toBe('一二三😀…');
});
