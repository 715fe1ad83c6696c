import { describe, expect, it } from 'vitest';
import type { Query } from '../env/types.ts';
import { RolloutFailure } from '../rollout/endpoint.ts';
import { inProcessPool } from '../rollout/pool/pool.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { drawQueries, type SampleConfig, sampleStep } from './sample-step.ts';
import { BASE_MODEL, tableModel } from './test-support.ts';
import { createTableEndpoint, tableContext, tableQuery } from './test-support-rollout.ts';

const questions = (count: number): Query[] =>
  Array.from({ length: count }, (_, i) => ({ ...tableQuery(i % 6, 1), id: `q${i}` }));
const idsOf = (drawn: readonly Query[]): string[] => drawn.map(({ id }) => id);

describe('drawQueries', () => {
  const queries = questions(13);
  const epochs = (seed: number): string[][] =>
    [0, 1, 2, 3].map((epoch) => idsOf(drawQueries(queries, seed, epoch * 13, 13)));

  it('gives each question once an epoch, in another order each epoch and for each seed', () => {
    const all = [...epochs(1), ...epochs(2)];
    for (const epoch of all) expect([...epoch].sort()).toEqual(idsOf(queries).sort());
    expect(new Set(all.map((epoch) => epoch.join())).size).toBe(all.length);
  });

  it('goes on at any cursor exactly where one long drawing would be, across the ends of epochs', () => {
    const whole = idsOf(drawQueries(queries, 1, 0, 60));
    expect(whole).toEqual(epochs(1).flat().concat(whole.slice(52)));
    for (let cursor = 0; cursor < 50; cursor++)
      expect(idsOf(drawQueries(queries, 1, cursor, 9))).toEqual(whole.slice(cursor, cursor + 9));
  });
});

describe('sampleStep', () => {
  const policy = { version: 0, model: BASE_MODEL };
  const config: SampleConfig = {
    queriesPerStep: 4,
    groupSize: 3,
    refill: 0,
    seed: 7,
  };
  const sampling = { temperature: 1, maxTokens: { planner: 2, rewriter: 2, lawyer: 64 }, maxAttempts: 1 };
  const take = (
    teaches: (group: Trajectory[]) => boolean,
    {
      refill = 0,
      cursor = 0,
      queries = questions(20),
      fails = () => false,
      queriesPerStep = 4,
    }: {
      refill?: number;
      cursor?: number;
      queries?: Query[];
      queriesPerStep?: number;
      fails?: (n: number) => boolean;
    } = {},
  ) => {
    const endpoint = createTableEndpoint(tableModel(6), async (_call, n) => {
      if (fails(n)) throw new RolloutFailure('connection', 'reset');
      return undefined;
    });
    const settings = { ...config, refill, queriesPerStep };
    const pool = inProcessPool(tableContext(endpoint), sampling);
    return sampleStep(pool, queries, policy, 3, cursor, settings, teaches);
  };
  const drawnIds = (groups: Trajectory[][]): (string | undefined)[] =>
    groups.map((group) => group[0]?.queryId);

  it('samples one group for each drawn question, and moves the cursor by as many', async () => {
    const queries = questions(20);
    const { groups, failures, cursor } = await take(() => true, { cursor: 17 });
    expect(cursor).toBe(21);
    expect(failures).toEqual([]);
    expect(drawnIds(groups)).toEqual(idsOf(drawQueries(queries, 7, 17, 4)));
    for (const group of groups)
      expect(group.map(({ member, step }) => [member, step])).toEqual([
        [0, 3],
        [1, 3],
        [2, 3],
      ]);
  });

  it('does not look for replacements when refill is 0, nor when every group teaches', async () => {
    expect((await take(() => false)).groups).toHaveLength(4);
    expect((await take(() => true, { refill: 9 })).groups).toHaveLength(4);
  });

  it('replaces as many as teach nothing, with the next questions', async () => {
    const queries = questions(20);
    const drawn = idsOf(drawQueries(queries, 7, 0, 20));
    const dull = new Set([drawn[1], drawn[3], drawn[5]]);
    const { groups, cursor } = await take(([first]) => !dull.has(first!.queryId), { refill: 9 });
    // Two of the first four are dull, then one of the two replacements, then none.
    expect(cursor).toBe(7);
    expect(drawnIds(groups)).toEqual(drawn.slice(0, 7));
  });

  it('draws at most `refill` extra groups, and ends when all groups are trivial', async () => {
    for (const refill of [1, 3, 4, 6]) {
      const { groups, cursor } = await take(() => false, { refill });
      expect(groups).toHaveLength(4 + refill);
      expect(cursor).toBe(4 + refill);
    }
  });

  it('keeps failed members out of the groups, counts them, and replaces a group that has too few', async () => {
    // The first group fails whole, the second loses one member.
    const { groups, failures } = await take((group) => group.length >= 2, { refill: 1, fails: (n) => n < 4 });
    expect(groups.map((group) => group.length)).toEqual([0, 2, 3, 3, 3]);
    expect(failures.map(({ member, reason }) => [member, reason])).toEqual([
      [0, 'connection: reset'],
      [1, 'connection: reset'],
      [2, 'connection: reset'],
      [0, 'connection: reset'],
    ]);
    expect(groups[1]!.map(({ member }) => member)).toEqual([1, 2]);
  });

  it('never samples the same member of a question twice: a second group has its own numbers and streams', async () => {
    const { groups } = await take(() => true, { queries: questions(3), queriesPerStep: 7 });
    const members = groups.flat().map(({ queryId, member }) => `${queryId} ${member}`);
    expect(new Set(members).size).toBe(21);
    const byQuestion = groups.filter((group) => group[0]!.queryId === 'q0');
    expect(byQuestion.map((group) => group.map(({ member }) => member))).toContainEqual([3, 4, 5]);
    const outputs = byQuestion.map((group) => JSON.stringify(group.map(({ calls }) => calls[0]!.outputIds)));
    expect(new Set(outputs).size).toBeGreaterThan(1);
  });

  it('also when a replacement comes from the next epoch', async () => {
    for (let cursor = 0; cursor < 12; cursor++) {
      const { groups } = await take(() => false, { queries: questions(6), cursor, refill: 4 });
      const members = groups.flat().map(({ queryId, member }) => `${queryId} ${member}`);
      expect(new Set(members).size).toBe(groups.length * 3);
    }
  });
});
