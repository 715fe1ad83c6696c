import { describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { RolloutFailure } from '../rollout/endpoint.ts';
import { trainLoop } from './loop.ts';
import { freshState, tableAdapter } from './test-support.ts';
import { begin, configOf, keptSteps, model, newRun, play, type Run } from './test-support-loop.ts';
import { ledgerOf, tableReplicas } from './test-support-rollout.ts';

describe('a step without a lesson', () => {
  it('trains nothing, publishes nothing, and the run goes on', async () => {
    const run: Run = newRun(configOf(3, { advantage: { refill: 3 } }), {
      context: { score: () => ledgerOf(run.outcomes.length === 1 ? 0.5 : 0.5 + 1e-9) },
    });
    const end = await play(run);
    expect(end).toMatchObject({ step: 3, policy: { version: 0, model: 'run-v0' }, cursor: 21 });
    expect(run.outcomes.map(({ update, dropped }) => [update, dropped])).toEqual(
      [1, 2, 3].map(() => [null, { 'no variance': 7 }]),
    );
    expect(await run.learner.state()).toEqual(freshState(tableAdapter(model, 0)));
    expect(run.endpoint.log.filter((line) => !line.startsWith('complete'))).toEqual(['load run-v0']);
  });

  it('does not stop the versions after it: they are named by their step', async () => {
    const run: Run = newRun(configOf(3), {
      context: {
        score: ({ pool }, { gold }) =>
          ledgerOf(run.outcomes.length === 1 ? 1 : pool.includes(gold[0]!) ? 1 : 0),
      },
    });
    const end = await play(run);
    expect(run.outcomes.map(({ update }) => update !== null)).toEqual([true, false, true]);
    expect(end.policy.model).toBe('run-v3');
    expect(run.outcomes[2]!.sampled.groups.flat()[0]!.adapter).toBe('run-v1');
    expect(run.endpoint.resident()).toEqual(['run-v3']);
  });

  it('groups that lost too many members are dropped whole and counted; the others train', async () => {
    const run: Run = newRun(configOf(1, { rollout: { minGroup: 5 } }), {
      context: { score: ({ calls }) => ledgerOf(calls[0]!.outputIds[0]!) },
      // Questions of the first two groups lose two of six members.
      script: async (call, n) => {
        if (call.temperature > 0 && [0, 1, 6, 7].includes(n - 6))
          throw new RolloutFailure('deadline', 'no answer');
        return undefined;
      },
    });
    await play(run);
    const { sampled, dropped, update } = run.outcomes[0]!;
    expect(sampled.failures).toHaveLength(4);
    expect(sampled.groups.map((group) => group.length)).toEqual([4, 4, 6, 6]);
    expect(dropped['too few members']).toBe(2);
    expect(sampled.groups.flat().filter((t) => t.advantage !== null).length).toBe(update!.tokens);
  });
});

describe('what stops a run', () => {
  it('a gradient that is not finite, k times in a row; with the trajectories of each of those steps kept', async () => {
    const run = newRun(configOf(9, { optimizer: { maxSkipped: 3 } }));
    const start = await begin(run);
    run.learner.poison(100);
    const failure = await trainLoop(run.parts, start).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(/step 3.*3 steps in a row.*not finite/);
    expect(run.outcomes.map(({ step, update }) => [step, update!.skipped])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
    ]);
    expect(keptSteps(run)).toEqual([2]);
    expect(run.kept[0]!.progress).toMatchObject({ skippedInARow: 2, policy: { version: 0 } });
    expect(await run.learner.state()).toEqual(freshState(tableAdapter(model, 0)));
  });

  it('not one alone, nor two and two with a good one between: no version for them, and training goes on', async () => {
    const bad = new Set([2, 3, 5, 6]);
    const run = newRun(configOf(7), {
      parts: ({ outcomes, learner }) => ({
        onStep: async (outcome) => {
          outcomes.push(outcome);
          learner.poison(bad.has(outcome.step + 1) ? 1 : 0);
        },
      }),
    });
    const end = await play(run);
    expect(run.outcomes.map(({ update }) => update!.skipped)).toEqual([0, 1, 1, 0, 1, 1, 0]);
    expect(end).toMatchObject({ skippedInARow: 0, policy: { model: 'run-v7' } });
    const published = run.endpoint.log.filter((line) => line.startsWith('load'));
    expect(published).toEqual(['load run-v0', 'load run-v1', 'load run-v4', 'load run-v7']);
  });

  it('a step without a lesson between two such gradients does not start the count anew', async () => {
    const run: Run = newRun(configOf(9, { optimizer: { maxSkipped: 2 } }), {
      context: {
        score: ({ pool }, { gold }) => ledgerOf(run.outcomes.length === 1 || pool.includes(gold[0]!) ? 1 : 0),
      },
    });
    const start = await begin(run);
    run.learner.poison(100);
    await expect(trainLoop(run.parts, start)).rejects.toThrow(/step 3.*2 steps in a row/);
  });

  it('an endpoint where every rollout of a step fails: loudly, with the reason, not by training nothing for ever', async () => {
    const run: Run = newRun(configOf(9, { train: { evalEvery: 100 } }), {
      script: async () => {
        if (run.outcomes.length === 2) throw new RolloutFailure('connection', 'ECONNREFUSED');
        return undefined;
      },
    });
    const failure = await play(run).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(/step 3.*every rollout.*connection: ECONNREFUSED/s);
    expect(run.outcomes).toHaveLength(2);
    expect(keptSteps(run)).toEqual([2]);
  });

  it('a version that cannot be proved: the error passes through, the old one stays, no step is recorded', async () => {
    const run: Run = newRun(configOf(9, { train: { checkpointEvery: 1 } }));
    run.parts.target.replicas = tableReplicas({
      ...run.endpoint,
      promptLogprobs: (name, ids) => run.endpoint.promptLogprobs(name === 'run-v2' ? 'run-v1' : name, ids),
    });
    await expect(play(run)).rejects.toMatchObject({ problem: 'equals-older' });
    expect(run.outcomes.map(({ step }) => step)).toEqual([1]);
    expect(keptSteps(run)).toEqual([1]);
    expect(run.endpoint.log).not.toContain('unload run-v1');
    expect(run.endpoint.log.filter((line) => line === 'complete run-v2')).toEqual([]);
  });

  it('a version that cannot be loaded: likewise', async () => {
    const run: Run = newRun(configOf(9, { train: { checkpointEvery: 1 } }));
    const failure = new RolloutFailure('http', 'CUDA out of memory', 400);
    run.parts.target.replicas = tableReplicas({
      ...run.endpoint,
      loadAdapter: async (name, path) => {
        if (name === 'run-v3') throw failure;
        await run.endpoint.loadAdapter(name, path);
      },
    });
    await expect(play(run)).rejects.toBe(failure);
    expect(run.endpoint.resident()).toEqual(['run-v2']);
    expect(keptSteps(run)).toEqual([1, 2]);
  });
});
