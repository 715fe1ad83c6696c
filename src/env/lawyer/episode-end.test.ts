/** How episodes of the Lawyer end, whatever the policy says. */
import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { episodeSchema } from '../episode.ts';
import type { Policy } from '../types.ts';
import { LAWYER_PACKS, type LawyerConfig } from './config.ts';
import { runLawyerEpisode } from './episode.ts';
import { config, query, run, saying, toolsOf } from './test-support.ts';

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

it('a turn is taken as long as one token is left, and none where all are spent', async () => {
  // Seven tokens a turn.
  const lines = ['法：量刑：1x', '法：量刑：2x', '法：量刑：3x'];
  const turns = async (maxPolicyTokens: number) => (await run(lines, { maxPolicyTokens })).calls.length;
  expect([await turns(1), await turns(7), await turns(8), await turns(14), await turns(15)]).toEqual([
    1, 1, 2, 2, 3,
  ]);
  const first = await run(['胡'], { maxTurns: 1 });
  expect(first).toMatchObject({ termination: { kind: 'cap', reason: '1 turns' }, correctives: 1, pool: [] });
});

it('a policy that fails leaves no episode', async () => {
  const policy: Policy = () => Promise.reject(new Error('replica down'));
  await expect(runLawyerEpisode(query, toolsOf().tools, policy, config)).rejects.toThrow('replica down');
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
