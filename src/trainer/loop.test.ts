import { describe, expect, it } from 'vitest';
import type { Config } from '../config/schema.ts';
import { configOf, newRun, play, type Run, recallOf, validation } from './test-support-loop.ts';
import { ledgerOf } from './test-support-rollout.ts';

describe('a run', () => {
  it('learns: held-out recall rises to 1 from chance, sampled by the version that the step before published', async () => {
    const run = newRun(configOf(20, { train: { evalEvery: 5 } }));
    const end = await play(run);
    expect(recallOf(run)[0]).toBeLessThan(0.5);
    expect(recallOf(run).at(-1)).toBe(1);
    // A step that has nothing to teach leaves the version as it is.
    let version = 0;
    for (const [i, { step, sampled, update }] of run.outcomes.entries()) {
      expect(step).toBe(i + 1);
      for (const { policyVersion, adapter } of sampled.groups.flat())
        expect([policyVersion, adapter]).toEqual([version, `run-v${version}`]);
      if (!update) continue;
      version = step;
      expect(update.ratioMean).toBe(1);
      expect(update.mismatch.max).toBeLessThan(1e-6);
    }
    expect(version).toBeGreaterThan(10);
    expect(end).toMatchObject({ step: 20, policy: { version, model: `run-v${version}` }, cursor: 80 });
  });

  it('keeps one adapter loaded between steps, and never more than two', async () => {
    let most = 0;
    const run = newRun(configOf(12, { train: { evalEvery: 50 } }), {
      parts: ({ endpoint, outcomes }) => ({
        onStep: async (outcome) => {
          outcomes.push(outcome);
          expect(endpoint.resident()).toEqual([`run-v${outcome.step}`]);
        },
      }),
      script: async () => {
        most = Math.max(most, run.endpoint.resident().length);
        return undefined;
      },
    });
    await play(run);
    expect(most).toBe(1);
    const loads = run.endpoint.log.filter((line) => !line.startsWith('complete'));
    expect(loads.slice(1, 5)).toEqual(['load run-v1', 'unload run-v0', 'load run-v2', 'unload run-v1']);
  });

  it('writes the advantages into the trajectories that it hands over, dropped groups included', async () => {
    const run = newRun(configOf(3));
    await play(run);
    for (const { sampled, dropped } of run.outcomes) {
      const flat = sampled.groups.filter((group) =>
        group.every((t) => t.ledger.total === group[0]!.ledger.total),
      );
      expect(dropped['no variance'] ?? 0).toBe(flat.length);
      for (const group of sampled.groups)
        for (const { advantage, dropReason } of group)
          expect([advantage === null, dropReason]).toEqual(
            flat.includes(group) ? [true, 'no variance'] : [false, null],
          );
    }
  });
});

describe('evaluation', () => {
  it('is at step 0, every N and at the end, each once', async () => {
    const evaluatedAt = async (steps: number, evalEvery: number): Promise<number[]> => {
      const run = newRun(configOf(steps, { train: { evalEvery } }), { folder: `${steps}-${evalEvery}` });
      await play(run);
      return run.evaluated;
    };
    expect(await evaluatedAt(5, 2)).toEqual([0, 2, 4, 5]);
    expect(await evaluatedAt(4, 2)).toEqual([0, 2, 4]);
    expect(await evaluatedAt(3, 10)).toEqual([0, 3]);
    expect(await evaluatedAt(3, 1)).toEqual([0, 1, 2, 3]);
    expect(await evaluatedAt(0, 1)).toEqual([0]);
  });

  type Found = (step: number, question: number) => boolean;
  /** The first `hits[step]` of the questions. */
  const first =
    (...hits: number[]): Found =>
    (step, question) =>
      question < hits[step]!;
  /** Which held-out questions find their article at which step goes by a script. */
  const scripted = (
    found: Found,
    config: Config,
    reward: (step: number, id: number) => number,
    folder = 'a',
  ) => {
    let step = 0;
    const run: Run = newRun(config, {
      folder,
      context: {
        runEpisode: async (query, policy) => {
          const messages = [{ role: 'user' as const, content: query.query }];
          const output = await policy({ role: 'planner', round: 0, callIndex: 0, messages });
          const question = validation.findIndex(({ id }) => id === query.id);
          const hit = question >= 0 && found(step, question);
          return {
            calls: [{ role: 'planner', round: 0, action: null, ...output }],
            rounds: [],
            pool: hit ? query.gold : ['other'],
            termination: { kind: 'planner', reason: '' },
          };
        },
        score: ({ calls }) => ledgerOf(reward(step, calls[0]!.outputIds[0]!)),
      },
      parts: ({ outcomes }) => ({
        onStep: async (outcome) => {
          outcomes.push(outcome);
          step = outcome.step;
        },
      }),
    });
    return run;
  };

  it('keeps the peak in the middle, the first of equals, while the reward only rises', async () => {
    const run = scripted(
      first(1, 4, 5, 5, 2),
      configOf(4, { train: { evalEvery: 1, checkpointEvery: 1 } }),
      (step, id) => 10 * step + id,
    );
    const end = await play(run);
    const rewards = run.outcomes.map(({ sampled }) => sampled.groups.flat()[0]!.ledger.total);
    expect([...rewards].sort((a, b) => a - b)).toEqual(rewards);
    expect(recallOf(run)).toEqual([1, 4, 5, 5, 2].map((n) => n / 6));
    expect(end.best).toEqual({ step: 2, value: 5 / 6, adapter: 'run-v2' });
    expect(run.kept.map(({ progress }) => progress.best?.step)).toEqual([1, 2, 2, 2]);
  });

  it('keeps the start when nothing is better, whatever the reward says', async () => {
    const run = scripted(
      first(3, 3, 2),
      configOf(2, { train: { evalEvery: 1 } }),
      (step, id) => 1e6 * step + id,
    );
    expect((await play(run)).best).toEqual({ step: 0, value: 0.5, adapter: 'run-v0' });
  });

  it('chooses by the metric that is asked for', async () => {
    for (const metric of ['recall', 'mrr', 'ndcg'] as const) {
      const run = newRun(configOf(2, { eval: { k: 1, metric } }), { folder: metric });
      const end = await play(run);
      const values = run.evaluations.map((evaluation) => evaluation[metric]);
      expect(end.best!.value).toBe(Math.max(...values));
    }
  });

  it('within the run asks a part of the questions, always the same; the first and the last ask all', async () => {
    const run = newRun(configOf(5, { eval: { k: 1, queries: 2 }, train: { evalEvery: 1 } }));
    await play(run);
    const asked = run.evaluations.map(({ perQuestion }) => perQuestion.map(({ queryId }) => queryId));
    expect(asked.map((ids) => ids.length)).toEqual([6, 2, 2, 2, 2, 6]);
    expect(new Set(asked.slice(1, 5).map((ids) => ids.join())).size).toBe(1);
    // Chosen by the same questions at every step: what the others find at step 0 does not count.
    const chosen = asked[1]!.map((id) => validation.findIndex((query) => query.id === id));
    const found: Found = (step, question) =>
      step === 0 ? !chosen.includes(question) : step === 1 && question === chosen[0];
    const config = configOf(2, { eval: { k: 1, queries: 2 }, train: { evalEvery: 1 } });
    const script = scripted(found, config, (step, id) => step + id, 'script');
    expect((await play(script)).best).toEqual({ step: 1, value: 0.5, adapter: 'run-v1' });
    expect(recallOf(script)).toEqual([4 / 6, 0.5, 0]);
  });

  it('is greedy, by the same requests each time, and does not move the training', async () => {
    const trajectories = async (evalEvery: number) => {
      const greedy: number[] = [];
      const run = newRun(configOf(4, { train: { evalEvery } }), {
        folder: String(evalEvery),
        script: async ({ temperature, seed }) => {
          if (temperature === 0) greedy.push(seed);
          return undefined;
        },
      });
      await play(run);
      expect(greedy).toHaveLength(6 * run.evaluated.length);
      expect(new Set(greedy).size).toBe(6);
      return run.outcomes.map(({ sampled }) => sampled.groups.flat().map((t) => ({ ...t, timings: {} })));
    };
    expect(await trajectories(1)).toEqual(await trajectories(4));
  });
});
