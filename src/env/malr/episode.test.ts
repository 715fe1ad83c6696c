import { describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import type { Policy } from '../types.ts';
import { ACTIONS } from './agents.ts';
import { runEpisode } from './episode.ts';
import { act, malrConfig as config, query, scripted, toolsOf } from './test-support.ts';

describe('a round', () => {
  it('searches each reformulation, reranks against the question, and pools without duplicates', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2', 'b1'], 乙: ['b1', 'a1', 'c1'], 丙: ['c2', 'c1'] });
    const policy = scripted([act('rewrite_single'), '甲', act('decompose'), '["乙","丙"]', act('terminate')]);
    const episode = await runEpisode(query, tools, policy, { ...config, topK: 7, keep: 3 });
    expect(episode.rounds).toEqual([
      { agent: 'rewrite_single', queries: ['甲'], dropped: [], newIds: ['a1', 'a2', 'b1'], poolSize: 3 },
      { agent: 'decompose', queries: ['乙', '丙'], dropped: [], newIds: ['c1', 'c2'], poolSize: 5 },
    ]);
    expect(episode.pool).toEqual(['a1', 'a2', 'b1', 'c1', 'c2']);
    expect(episode.termination).toEqual({ kind: 'planner', reason: 'terminate' });
    expect(tools.requests.map(({ request, k }) => [request.original, request.rewrite, k])).toEqual(
      ['甲', '乙', '丙'].map((text) => [query.query, text, 7]),
    );
    expect(tools.reranks).toEqual(Array(3).fill({ original: query.query, keep: 3 }));
  });

  it('keeps every call as it was sampled, with its role, round and action', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2'] });
    const { calls } = await runEpisode(
      query,
      tools,
      scripted([act('repair'), '甲', act('terminate')]),
      config,
    );
    expect(calls.map(({ role, round, action }) => [role, round, action])).toEqual([
      ['planner', 0, 'repair'],
      ['repair', 0, null],
      ['planner', 1, 'terminate'],
    ]);
    expect(calls[1]).toEqual({
      role: 'repair',
      round: 0,
      promptIds: [1, 2],
      outputIds: [1, 0],
      logprobs: [-0.5, -0.25],
      temperature: 1,
      finishReason: 'stop',
      text: '甲',
      action: null,
    });
  });

  it('shows the planner question and summary only', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2'], 乙: ['a1'] });
    const policy = scripted([act('repair'), '甲', act('rewrite_single'), '乙', act('terminate')]);
    await runEpisode(query, tools, policy, config);
    const planner = policy.seen.filter(({ role }) => role === 'planner');
    expect(planner.map(({ messages }) => messages[1]!.content)).toEqual([
      `${query.query}｜轮1`,
      `${query.query}｜轮2池2增2散5前修正`,
      `${query.query}｜轮3池2增0散5前修正改写`,
    ]);
    expect(planner.every(({ messages }) => messages.length === 2)).toBe(true);
  });

  it('shows the candidates by title, in pool order', async () => {
    const tools = { ...toolsOf({ 甲: ['a1', 'a2'] }), rankPool: () => ['a2', 'a1'] };
    const policy = scripted([act('rewrite_single'), '甲', act('repair'), '甲', act('terminate')]);
    const episode = await runEpisode(query, tools, policy, { ...config, prompts: 'zh' });
    expect(policy.seen[3]!.messages[1]!.content).toContain('条文a2\n条文a1');
    expect(episode.pool).toEqual(['a2', 'a1']);
  });

  it('searches the question as it stands, without a call of the policy', async () => {
    const tools = toolsOf({ [query.query]: ['a1', 'a2'] });
    const episode = await runEpisode(query, tools, scripted([act('original'), act('terminate')]), config);
    expect(episode.rounds[0]).toMatchObject({
      agent: 'original',
      queries: [query.query],
      newIds: ['a1', 'a2'],
    });
    expect(episode.calls).toHaveLength(2);
  });

  it('drops a reformulation of mostly unknown terms and says so', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2'], xxx: ['b1'], x甲: ['c1'] });
    const policy = scripted([act('decompose'), '["甲","xxx","x甲"]', act('terminate')]);
    const { rounds } = await runEpisode(query, tools, policy, config);
    expect(rounds[0]).toEqual({
      agent: 'decompose',
      queries: ['甲', 'x甲'],
      dropped: [{ query: 'xxx', reason: 'unknown terms' }],
      newIds: ['a1', 'a2', 'c1'],
      poolSize: 3,
    });
    expect(tools.requests.map(({ request }) => request.rewrite)).not.toContain('xxx');
  });

  it('counts growth over the whole round, not over its last search', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2', 'a3'], 乙: ['a1'] });
    const strict = { ...config, diminishing: 'stop' as const };
    const policy = scripted([act('decompose'), '["甲","乙"]', act('terminate')]);
    expect((await runEpisode(query, tools, policy, strict)).termination.kind).toBe('planner');
  });

  it('cuts the ranked pool at its limit, not the growth', async () => {
    const tools = toolsOf({ 甲: ['a1', 'a2', 'a3'] });
    const limited = { ...config, poolLimit: 2 };
    const episode = await runEpisode(
      query,
      tools,
      scripted([act('repair'), '甲', act('terminate')]),
      limited,
    );
    expect(episode.pool).toEqual(['a1', 'a2']);
    expect(episode.rounds[0]!.poolSize).toBe(3);
  });
});

describe('timing and faults', () => {
  it('starts all searches of a round at once', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    let started = 0;
    const tools = toolsOf({ 甲: ['a1'], 乙: ['b1'], 丙: ['c1'] }, async () => {
      if (++started === 3) open();
      await gate;
    });
    const policy = scripted([act('decompose'), '["甲","乙","丙"]', act('terminate')]);
    expect((await runEpisode(query, tools, policy, config)).pool).toEqual(['a1', 'b1', 'c1']);
  });

  it('rejects when a search, a rerank or the policy fails: no episode, no score', async () => {
    const tools = toolsOf({ 甲: ['a1'], 乙: ['b1'] });
    const fail = async () => {
      throw new Error('index is gone');
    };
    const answers = [act('decompose'), '["甲","乙"]'];
    const deadRetriever = { ...tools, retriever: { ...tools.retriever, search: fail } };
    await expect(runEpisode(query, deadRetriever, scripted(answers), config)).rejects.toThrow(
      'index is gone',
    );
    const deadReranker = { ...tools, reranker: { rerank: fail } };
    await expect(runEpisode(query, deadReranker, scripted(answers), config)).rejects.toThrow('index is gone');
    await expect(runEpisode(query, tools, scripted([act('repair')]), config)).rejects.toThrow(
      'no answer left',
    );
  });
});

/** A policy that mostly answers well, and searches over a small world, all from one random stream. */
function randomAnswers(seed: number): string[] {
  const random = stream(seed, 'answers');
  const texts = ['甲', '乙', '丙', 'xxx', '无', ''];
  const text = () => texts[random.int(random.next() < 0.95 ? 5 : 6)]!;
  return Array.from({ length: 12 }, () => {
    const action = ACTIONS[random.int(ACTIONS.length)]!;
    if (random.next() < 0.03) return 'nonsense';
    return action;
  }).flatMap((action) => [
    action,
    action === 'decompose' ? JSON.stringify([text() || '甲', text() || '乙']) : text(),
  ]);
}

/** Plays the pairs (action, rewrite): each role takes what is its own. */
function randomPolicy(answers: string[]): Policy {
  return async ({ role, round }) => {
    const text = role === 'planner' ? act(answers[2 * round]!) : answers[2 * round + 1]!;
    return { promptIds: [], outputIds: [], logprobs: [], temperature: 1, finishReason: 'stop', text };
  };
}

describe('300 random episodes', () => {
  const table = { 甲: ['a1', 'a2', 'b1'], 乙: ['b1', 'b2'], 丙: ['c1'], [query.query]: ['a1', 'd1'] };
  const small = { ...config, poolLimit: 4, toleratedBadRewrites: 1 };

  it('are the same whatever the timing of the searches, and keep the invariants', async () => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const answers = randomAnswers(seed);
      const random = stream(seed, 'delays');
      const wait = () => new Promise((resolve) => setTimeout(resolve, random.int(3)));
      const tools = toolsOf(table);
      const [still, shaken] = await Promise.all([
        runEpisode(query, tools, randomPolicy(answers), small),
        runEpisode(query, toolsOf(table, wait), randomPolicy(answers), small),
      ]);
      expect(shaken).toEqual(still);

      const { rounds, calls, pool, termination } = still;
      kinds.add(termination.kind);
      const found = rounds.flatMap((round) => round.newIds);
      expect(new Set(found).size).toBe(found.length);
      let size = 0;
      for (const round of rounds) {
        size += round.newIds.length;
        expect(round.poolSize).toBe(size);
      }
      expect(pool.every((id) => found.includes(id))).toBe(true);
      expect(pool.length).toBe(Math.min(small.poolLimit, found.length));
      expect(rounds.length).toBeLessThanOrEqual(small.maxRounds);
      expect(calls.every((call) => call.round <= rounds.length)).toBe(true);
      const planned = calls.filter((call) => call.role === 'planner').length;
      expect(planned - rounds.length).toBe(calls.some((call) => call.round === rounds.length) ? 1 : 0);
      expect(tools.requests.map(({ request }) => request.rewrite)).toEqual(
        rounds.flatMap((round) => round.queries),
      );
      if (termination.kind === 'cap') expect(rounds).toHaveLength(small.maxRounds);
      if (termination.kind === 'planner') expect(calls.at(-1)!.action).toBe('terminate');
    }
    expect([...kinds].sort()).toEqual(['cap', 'invalid', 'no-growth', 'planner']);
  });
});
