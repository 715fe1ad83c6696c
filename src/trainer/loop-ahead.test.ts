/** The loop with `train.maxStaleness` above 0: rollouts of later steps run while the learner works. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import type { StepOutcome } from './loop.ts';
import { publishAgain } from './publish.ts';
import {
  begin,
  configAhead,
  failOnUnhandled,
  keptSteps,
  newRun,
  play,
  type Run,
  recallOf,
  timeless,
} from './test-support-loop.ts';

const versionsOf = ({ sampled }: StepOutcome): number[] => [
  ...new Set(sampled.groups.flat().map(({ policyVersion }) => policyVersion)),
];

failOnUnhandled();

describe('sampling ahead', () => {
  it('learns from samples of versions so many steps back, corrected by their own log-probabilities', async () => {
    for (const depth of [1, 2]) {
      const run = newRun(configAhead(24, depth, { train: { evalEvery: 24 } }), { folder: String(depth) });
      const end = await play(run);
      expect(recallOf(run)[0]).toBeLessThan(0.5);
      expect(recallOf(run).at(-1)).toBeGreaterThan(0.8);
      let left = [0];
      let drift = 0;
      for (const outcome of run.outcomes) {
        const { step, update, staleness } = outcome;
        const by = left[Math.max(0, step - 1 - depth)]!;
        expect(versionsOf(outcome)).toEqual([by]);
        const age = new Set(left.filter((version) => version > by)).size;
        expect(staleness).toEqual({ mean: age, max: age, dropped: 0 });
        if (update) {
          expect(update.ratioMean).toBe(1);
          if (age === 0) expect(update.mismatch.max).toBeLessThan(1e-6);
          drift = Math.max(drift, update.mismatch.mean);
        }
        left = [...left, update ? step : left.at(-1)!];
      }
      expect(drift).toBeGreaterThan(0.05);
      expect(run.outcomes.some(({ alarms }) => alarms.length > 0)).toBe(false);
      expect(end.earlier).toHaveLength(depth);
    }
  });

  it('runs while the learner works: a learner that waits for the next steps to be sampled is not held up', async () => {
    const depth = 2;
    let asked = 0;
    let most = 0;
    const run: Run = newRun(configAhead(8, depth, { train: { evalEvery: 8 } }), {
      script: async ({ temperature }) => {
        if (temperature > 0) asked++;
        most = Math.max(most, run.endpoint.resident().length);
        return undefined;
      },
    });
    const { update } = run.learner;
    const counted: number[] = [];
    run.learner.update = async (rate) => {
      const step = run.outcomes.length + 1;
      const wanted = 24 * Math.min(8, step + depth);
      while (asked < wanted) await sleep(1);
      await sleep(5);
      counted.push(asked);
      return update(rate);
    };
    await play(run);
    // Never more than so many steps ahead of the one that is learnt.
    expect(counted).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((step) => 24 * Math.min(8, step + depth)));
    // What samples, and the one that is being published.
    expect(most).toBeLessThanOrEqual(depth + 2);
    expect(run.endpoint.resident().length).toBe(depth + 1);
  });

  it('an evaluation uses the newest version, and does not wait for the steps ahead', async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const evaluatedBy: string[] = [];
    const run: Run = newRun(configAhead(4, 1, { train: { evalEvery: 1 } }), {
      script: async ({ model, temperature }) => {
        // The steps after the second hang until it has been evaluated.
        if (temperature > 0 && model !== 'run-v0' && run.evaluated.length < 3) await held;
        if (temperature === 0) evaluatedBy.push(model);
        return undefined;
      },
      parts: ({ evaluated }) => ({
        onEvaluation: async (step) => {
          evaluated.push(step);
          if (step === 2) release();
        },
      }),
    });
    await play(run);
    expect(run.evaluated).toEqual([0, 1, 2, 3, 4]);
    expect([...new Set(evaluatedBy)]).toEqual(['run-v0', 'run-v1', 'run-v2', 'run-v3', 'run-v4']);
  });

  it('does not depend on who is quick and who is slow', async () => {
    const config = configAhead(6, 2, { advantage: { refill: 3 }, train: { evalEvery: 2 } });
    const results = [];
    for (const slow of [0, 1, 2]) {
      const random = stream(slow, 'delays');
      const run = newRun(config, {
        folder: String(slow),
        script: async () => {
          if (slow > 0) await sleep(random.int(5));
          return undefined;
        },
      });
      const { update } = run.learner;
      run.learner.update = async (rate) => {
        if (slow === 2) await sleep(random.int(30));
        return update(rate);
      };
      const end = await play(run);
      const state = await run.learner.state();
      results.push({
        outcomes: run.outcomes.map(timeless),
        evaluations: run.evaluations,
        end: { ...end, seconds: 0 },
        state,
      });
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });
});

describe('what goes wrong ahead', () => {
  it('is told at the step that needs it, not before', async () => {
    const failure = new Error('the score divides by zero');
    const run = newRun(configAhead(9, 2));
    const { rollOutGroup } = run.parts.pool;
    run.parts.pool.rollOutGroup = async (request) => {
      if (request.step === 4) throw failure;
      return rollOutGroup(request);
    };
    await expect(play(run)).rejects.toBe(failure);
    expect(run.outcomes.map(({ step }) => step)).toEqual([1, 2, 3]);
    expect(keptSteps(run)).toEqual([2]);
  });

  it('a version that cannot be proved ends the run, and the rollouts ahead with it', async () => {
    let groups = 0;
    const run = newRun(configAhead(9, 2));
    const { install } = run.replicas;
    run.parts.target.replicas = {
      install: async (adapter) => {
        if (adapter.version === 2) throw new Error('refused');
        await install(adapter);
      },
    };
    const { rollOutGroup } = run.parts.pool;
    run.parts.pool.rollOutGroup = async (request) => {
      groups++;
      try {
        await sleep(2);
        return await rollOutGroup(request);
      } finally {
        groups--;
      }
    };
    await expect(play(run)).rejects.toThrow('refused');
    expect(groups).toBe(0);
  });

  it('a trajectory of a version that is no longer in use is left out and counted; its group closes without it', async () => {
    const run = newRun(configAhead(6, 1, { rollout: { minGroup: 5 }, train: { evalEvery: 6 } }));
    const { rollOutGroup } = run.parts.pool;
    let first = true;
    run.parts.pool.rollOutGroup = async (request) => {
      const results = await rollOutGroup(request);
      if (request.step !== 5) return results;
      // One group loses two members and is dropped, the others lose one and are not.
      const old = first ? 2 : 1;
      first = false;
      return results.map((result, m) =>
        result.kind === 'ok' && m < old
          ? { ...result, trajectory: { ...result.trajectory, policyVersion: 0, adapter: 'run-v0' } }
          : result,
      );
    };
    await play(run);
    const { sampled, staleness, dropped } = run.outcomes[4]!;
    expect(staleness).toEqual({ mean: 1, max: 1, dropped: 5 });
    expect(sampled.groups.map((group) => group.length).sort()).toEqual([4, 5, 5, 5]);
    expect(sampled.failures.map(({ reason }) => reason)).toEqual(
      new Array(5).fill('stale: sampled by version 0, in use are 3, 4'),
    );
    expect(dropped['too few members']).toBe(1);
  });

  it('of a version whose folder is gone, a resumed run says so', async () => {
    const run = newRun(configAhead(3, 1));
    await begin(run);
    const lost = { version: 7, model: 'run-v7' };
    await expect(publishAgain(run.parts.target, [lost])).rejects.toThrow(/run-v7.*not there whole/);
  });
});
