import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { recordedPolicy } from '../../env/demonstration.ts';
import type { Episode } from '../../env/episode.ts';
import type { ChatModel } from '../../env/lawyer/types.ts';
import type { Policy, Query } from '../../env/types.ts';
import type { Ledger } from '../../reward/ledger-schema.ts';
import { RolloutFailure } from '../../rollout/rollout-failure.ts';
import type { Environment } from '../environment.ts';
import { demonstrationSchema } from './demonstration-file.ts';
import { synthesisText } from './synthesis-text.ts';
import { type SynthesizeOptions, synthesize, type TestText } from './synthesize.ts';

const LONG = '房东在合同到期以后一直不肯把押金退还给我应该怎么办才好呢';
const queries: Query[] = [
  { id: 'right', query: '公司拖欠工资三个月不发我能要求赔偿吗', gold: ['a'] },
  { id: 'wrong', query: '邻居装修噪音太大影响休息怎么处理', gold: ['a'] },
  { id: 'broken', query: '网购的手机收到就是坏的商家不退', gold: ['a'] },
  { id: 'leaked', query: `请问，${LONG}？谢谢`, gold: ['a'] },
];
const tests: TestText[] = [{ file: 'held-out.jsonl', id: 'v1', text: LONG }];

/** One call an episode; the policy's words decide what it is worth. */
async function runEpisode(query: Query, policy: Policy): Promise<Episode> {
  const messages = [{ role: 'user' as const, content: query.query }];
  const { text } = await policy({ role: 'lawyer', round: 0, callIndex: 0, messages });
  const kind = text === 'garbage' ? 'invalid' : 'planner';
  return { calls: [], rounds: [], pool: [text], termination: { kind, reason: 'STOP' } };
}

const ledgerOf = (raw: number): Ledger => ({
  terms: [{ name: 'recall', raw, weight: 1, value: raw }],
  total: raw,
});

function environmentOf(say: (query: Query, rollout: number) => string): Environment {
  return {
    retriever: undefined as never,
    runEpisode,
    async score({ pool }, { id }) {
      if (id === 'broken') throw new RolloutFailure('environment', 'the judge is down');
      return ledgerOf(pool[0] === 'good' || pool[0] === LONG ? 1 : 0);
    },
    async demonstrate(query, { rollout, judged }) {
      expect(judged).toBe(true);
      const { policy, calls } = recordedPolicy(query.id, () => say(query, rollout));
      const episode = await runEpisode(query, policy);
      return { queryId: query.id, rollout, calls, episode };
    },
    worth: ({ total }) => total,
    standIns: [],
  };
}

const options = (change: Partial<SynthesizeOptions> = {}): SynthesizeOptions => ({
  rollouts: 2,
  seed: 1,
  accept: 0.5,
  ngram: 20,
  maxOverlap: 0.3,
  maxTokens: 64,
  temperature: 0,
  concurrency: 2,
  signal: new AbortController().signal,
  onQuestion: () => {},
  ...change,
});
const standIn = { name: 'the oracle (stand-in)', chat: null };
const sayById = ({ id }: Query): string => (id === 'wrong' ? 'bad' : 'good');

describe('synthesize', () => {
  it('keeps what is right, and counts what is wrong, failed and contaminated', async () => {
    const { records, report } = await synthesize(
      environmentOf(sayById),
      standIn,
      queries,
      tests,
      [{ name: 'precedents', texts: [{ id: 'p1', text: `本院认为${LONG}` }] }],
      options(),
    );
    expect(records.map(({ queryId, rollout }) => `${queryId}/${rollout}`)).toEqual(['right/0', 'right/1']);
    for (const record of records) expect(demonstrationSchema.parse(record)).toEqual(record);
    expect(records[0]!.calls[0]).toMatchObject({ role: 'lawyer', text: 'good' });
    expect(report.episodes).toEqual({ played: 6, kept: 2, failed: 2, invalid: 0, wrong: 2, contaminated: 0 });
    expect(report.failures[0]).toContain('the judge is down');
    expect(report.meanWorth).toEqual({ played: 0.5, kept: 1 });
    const refused = report.contamination.sources.map((one) => [one.source, one.texts, one.refused.length]);
    expect(refused).toEqual([
      ['training questions', 4, 1],
      ['precedents', 1, 1],
      ["the teacher's calls", 2, 0],
      ['precedents shown to it', 2, 0],
    ]);
    expect(report.contamination.sources[0]!.refused).toEqual([
      { id: 'leaked', file: 'held-out.jsonl', test: 'v1', share: 1 },
    ]);
    expect(synthesisText(report)).toContain('the oracle (stand-in): 6 episodes played, 2 kept');
  });

  it('refuses an episode in which the teacher writes a test text', async () => {
    const { report } = await synthesize(
      environmentOf((_, rollout) => (rollout === 0 ? LONG : 'good')),
      standIn,
      queries.slice(0, 1),
      tests,
      [],
      options(),
    );
    expect(report.episodes).toMatchObject({ played: 2, kept: 1, contaminated: 1 });
  });

  it('refuses an episode that was shown a precedent with a test text, not one with a statute that a test quotes', async () => {
    const one = { id: 'p', rank: 0, title: '判例', text: `本院认为${LONG}`, articles: [] };
    const showing = (source: 'statute' | 'precedent'): Environment => ({
      ...environmentOf(sayById),
      async demonstrate(query, options) {
        const played = await environmentOf(sayById).demonstrate(query, options);
        const round = { agent: 'PRECEDENT', queries: ['x'], dropped: [], newIds: [], poolSize: 0 };
        const rounds = options.rollout === 0 ? [{ ...round, evidence: [{ ...one, source }] }] : [];
        return { ...played, episode: { ...played.episode, rounds } };
      },
    });
    const kept = async (source: 'statute' | 'precedent') =>
      (await synthesize(showing(source), standIn, queries.slice(0, 1), tests, [], options())).report.episodes;
    expect(await kept('precedent')).toMatchObject({ played: 2, kept: 1, contaminated: 1 });
    expect(await kept('statute')).toMatchObject({ played: 2, kept: 2, contaminated: 0 });
  });

  it('plays with a model where there is one, garbage is invalid, and what it saw is kept', async () => {
    let calls = 0;
    const chat: ChatModel = {
      name: 'teacher',
      chat: async (messages, { maxTokens }) => {
        expect(maxTokens).toBe(64);
        expect(messages[0]!.content).toBe(queries[0]!.query);
        return calls++ === 0 ? 'garbage' : 'good';
      },
    };
    const { records, report } = await synthesize(
      environmentOf(sayById),
      { name: chat.name, chat },
      queries.slice(0, 1),
      tests,
      [],
      options(),
    );
    expect(report.episodes).toMatchObject({ played: 2, kept: 1, invalid: 1 });
    expect(report.invalid).toEqual([{ reason: 'STOP', episodes: 1 }]);
    expect(synthesisText(report)).toContain('invalid, 1 times: STOP');
    expect(records[0]).toMatchObject({ teacher: 'teacher', calls: [{ messages: [{ role: 'user' }] }] });
  });

  it('names each sample of a teacher that samples by seed, question, episode and call; none where it does not', async () => {
    const samples = async (temperature: number, seed: number) => {
      const named: (string | undefined)[] = [];
      const chat: ChatModel = {
        name: 'teacher',
        chat: async (_, { sample }) => {
          named.push(sample);
          return 'good';
        },
      };
      const settings = options({ temperature, seed });
      await synthesize(environmentOf(sayById), { name: 't', chat }, queries.slice(0, 2), tests, [], settings);
      return named.sort();
    };
    expect(await samples(0.7, 1)).toEqual(['1/right/0/0', '1/right/1/0', '1/wrong/0/0', '1/wrong/1/0']);
    expect(await samples(0.7, 2)).toContain('2/right/0/0');
    expect(new Set(await samples(0, 1))).toEqual(new Set([undefined]));
  });

  it('is an error when every episode failed, and ends when the signal fires', async () => {
    const environment = environmentOf(sayById);
    const broken = queries.slice(2, 3);
    await expect(synthesize(environment, standIn, broken, tests, [], options())).rejects.toThrow(
      /the oracle.*: all 2 episodes failed, the last with: .*the judge is down/,
    );
    const controller = new AbortController();
    const reason = new UserError('stop', 'here');
    const onQuestion = (): void => controller.abort(reason);
    const stopped = options({ signal: controller.signal, onQuestion, concurrency: 1 });
    await expect(synthesize(environment, standIn, queries, tests, [], stopped)).rejects.toBe(reason);
  });
});
