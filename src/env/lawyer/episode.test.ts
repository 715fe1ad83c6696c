import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { episodeSchema } from '../episode.ts';
import type { Message, Policy } from '../types.ts';
import { LAWYER_PACKS, type LawyerConfig } from './config.ts';
import { type LawyerTools, runLawyerEpisode } from './episode.ts';
import { buildLawyerMessages, cutQuestion } from './prompts/build-messages.ts';
import type { Evidence } from './types.ts';

const config: LawyerConfig = {
  prompts: 'zh-compact',
  maxTurns: 6,
  maxPolicyTokens: 1000,
  maxQueryChars: 50,
  evidenceChars: 4,
  evidenceItems: 2,
  malformed: 'correct',
  allowEarlyStop: false,
  unknownTermLimit: 0.5,
  poolLimit: 20,
};
const query = { id: 'q', query: '偷了手机怎么判', gold: ['a1'], date: '2021-01-01', exclude: ['p9'] };
const statute = (id: string): Evidence => ({
  source: 'statute',
  id,
  rank: 0,
  title: `第${id}条`,
  text: `${id}盗窃公私财物`,
  articles: [id],
});

/** Tools that record what is asked of them; a query's digits are the articles found. */
function toolsOf(change: Partial<LawyerTools> = {}) {
  const asked: unknown[] = [];
  const judged: unknown[] = [];
  const tools: LawyerTools = {
    statutes: {
      unknownTermShare: (text) => (text.includes('胡说') ? 0.9 : 0),
      async search(request) {
        asked.push(request);
        return [...request.query.matchAll(/\d/g)].map(([digit]) => statute(`a${digit}`));
      },
    },
    precedents: {
      unknownTermShare: (text) => (text.includes('瞎编') ? 0.9 : 0),
      async search(request) {
        asked.push(request);
        return [
          {
            source: 'precedent',
            id: 'p1',
            rank: 0,
            title: '盗窃罪',
            text: '判决',
            articles: ['a8', 'a9', 'zz'],
          },
        ];
      },
    },
    judge: {
      name: 'judge',
      async answer(question, evidence) {
        judged.push([question, evidence]);
        return { text: 'A', articles: evidence.map(({ id }) => id), choices: [], number: null };
      },
    },
    hasArticle: (id) => /^a\d$/.test(id),
    ...change,
  };
  return { tools, asked, judged };
}

/** A policy that says these lines; what it saw is kept. */
function saying(lines: string[], end = '止', finishReason: 'stop' | 'length' = 'stop') {
  const seen: Message[][] = [];
  const policy: Policy = async ({ messages, callIndex, role }) => {
    expect(role).toBe('lawyer');
    seen.push(messages);
    const text = lines[callIndex] ?? end;
    return {
      promptIds: [1],
      outputIds: [...text].map(() => 1),
      logprobs: [...text].map(() => 0),
      temperature: 1,
      finishReason,
      text,
    };
  };
  return { policy, seen };
}
const run = (lines: string[], change: Partial<LawyerConfig> = {}, tools = toolsOf().tools) =>
  runLawyerEpisode(query, tools, saying(lines).policy, { ...config, ...change });

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

describe('ends', () => {
  it.each<[string, string[], Partial<LawyerConfig>, string, string]>([
    ['turns', ['法：量刑：1', '法：量刑：2'], { maxTurns: 2 }, 'cap', '2 turns'],
    ['tokens', ['法：量刑：1'], { maxPolicyTokens: 5 }, 'cap', '5 tokens'],
    ['STOP with nothing found', [], {}, 'invalid', 'STOP with nothing found'],
    ['STOP with nothing found, allowed', [], { allowEarlyStop: true }, 'planner', 'STOP'],
    [
      'a second malformed turn',
      ['胡', '法：量刑：1', '说'],
      {},
      'invalid',
      'turn: not one of the three forms',
    ],
    ['the first malformed turn', ['胡'], { malformed: 'end' }, 'invalid', 'turn: not one of the three forms'],
  ])('%s', async (_, lines, change, kind, reason) => {
    const episode = await run(lines, change);
    expect(episode.termination).toEqual({ kind, reason });
    expect(episode.answer === null).toBe(kind === 'invalid');
  });
  it('an output that was cut counts as malformed', async () => {
    const { policy } = saying(['法：量刑：1'], '止', 'length');
    const episode = await runLawyerEpisode(query, toolsOf().tools, policy, { ...config, malformed: 'end' });
    expect(episode.termination.reason).toBe('turn: cut by the length limit');
  });
  it('a judge or a search that fails leaves no episode', async () => {
    const fails = () => Promise.reject(new Error('down'));
    const { tools } = toolsOf();
    await expect(run(['法：量刑：1'], {}, { ...tools, judge: { name: 'j', answer: fails } })).rejects.toThrow(
      'down',
    );
    await expect(
      run(['案：1'], {}, { ...tools, precedents: { search: fails, unknownTermShare: () => 0 } }),
    ).rejects.toThrow('down');
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

it('random policies never crash an episode, in any pack: it ends by STOP, a cap or as invalid', async () => {
  const random = stream(1, 'lawyer-episode-test');
  const lines = ['止', '法：量刑：1', '法：要件：23', '案：x', '法：', '', '胡', '法：量刑：胡说', '案：1'];
  const objects = [
    '{"action":"STOP"}',
    '```json\n{"action":"STATUTE","query":"1","intent":"量刑"}\n```',
    '{"action":"PRECEDENT","query":"x","charges":["盗窃罪"]}',
    '{"action":"STATUTE","query":"胡说","intent":""}',
    '{"action":"STATUTE","query":"2"',
  ];
  const signs = [...'{}[]",:：法案止\\\n\u0000\ud800|<>😀1 '];
  const garbage = () =>
    Array.from({ length: random.int(20) }, () => signs[random.int(signs.length)]).join('');
  const ends = new Set<string>();
  for (let i = 0; i < 600; i++) {
    const prompts = LAWYER_PACKS[random.int(LAWYER_PACKS.length)]!;
    const words = prompts === 'zh-compact' ? lines : objects;
    const turns = Array.from({ length: 9 }, () =>
      random.int(3) === 0 ? garbage() : words[random.int(words.length)]!,
    );
    const malformed = random.int(2) === 0 ? 'end' : 'correct';
    const maxTurns = 1 + random.int(6);
    const episode = await run(turns, { prompts, malformed, allowEarlyStop: random.int(2) === 0, maxTurns });
    ends.add(`${episode.termination.kind} ${episode.correctives}`);
    expect(episode.calls.length).toBeLessThanOrEqual(maxTurns);
    expect(episode.answer === null).toBe(episode.termination.kind === 'invalid');
    expect(new Set(episode.pool).size).toBe(episode.pool.length);
    expect(episodeSchema.parse(JSON.parse(JSON.stringify(episode)))).toEqual(episode);
  }
  expect([...ends].sort()).toEqual(['cap 0', 'cap 1', 'invalid 0', 'invalid 1', 'planner 0', 'planner 1']);
});

it('a long question is cut to its head and its end', () => {
  const long = `头${'中'.repeat(300)}尾`;
  const cut = cutQuestion(long);
  expect([...cut]).toHaveLength(113);
  expect(cut.startsWith('头') && cut.endsWith('尾') && cut.includes('…')).toBe(true);
  expect(cutQuestion(' 短\r\n问 ')).toBe('短 问');
});
