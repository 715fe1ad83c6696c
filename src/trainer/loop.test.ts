import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { type Config, configSchema } from '../config/schema.ts';
import type { Query } from '../env/types.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { type CompletionCall, RolloutFailure } from '../rollout/endpoint.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import { type Checkpoint, latestCheckpoint, type Progress, writeCheckpoint } from './checkpoint.ts';
import { type LoopParts, type StepOutcome, trainLoop } from './loop.ts';
import { type PublishTarget, publish } from './publish.ts';
import {
  BASE_MODEL,
  createTableLearner,
  freshState,
  type TableLearner,
  tableAdapter,
  tableModel,
} from './test-support.ts';
import {
  createTableEndpoint,
  ledgerOf,
  type TableEndpoint,
  tableContext,
  tableQuery,
} from './test-support-rollout.ts';

const model = tableModel(8);
/** After token i pays token i + 1; the held-out questions are others with the same tokens. */
const train: Query[] = [1, 2, 3, 4, 5, 6].map((i) => tableQuery(i, i + 1));
const validation: Query[] = train.map((query) => ({ ...query, id: `held-${query.id}` }));

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-loop-'));
});
afterEach(() => rmSync(root, { recursive: true }));

type Sections = { [K in keyof Config]?: object };
function configOf(steps: number, change: Sections = {}): Config {
  return configSchema.parse({
    model: { path: BASE_MODEL },
    data: { corpus: 'c', train: 't', validation: 'v' },
    ...change,
    run: { name: 'run', seed: 3, ...change.run },
    rollout: {
      queriesPerStep: 4,
      groupSize: 6,
      minGroup: 2,
      maxTokens: { planner: 1 },
      maxAttempts: 1,
      ...change.rollout,
    },
    optimizer: { learningRate: 0.3, warmupSteps: 0, maxSkipped: 3, ...change.optimizer },
    eval: { k: 1, ...change.eval },
    train: { steps, evalEvery: 2, checkpointEvery: 2, ...change.train },
  });
}

interface Run {
  parts: LoopParts;
  learner: TableLearner;
  endpoint: TableEndpoint;
  outcomes: StepOutcome[];
  evaluated: number[];
  evaluations: PolicyEvaluation[];
  kept: Checkpoint[];
  controller: AbortController;
}

/** A run with everything real but policy, learner and endpoint. `context` and `parts` replace parts. */
function newRun(
  config: Config,
  change: {
    context?: Partial<RolloutContext>;
    parts?: (run: Run) => Partial<LoopParts>;
    script?: (call: CompletionCall, n: number) => Promise<undefined>;
    start?: Checkpoint['learner'];
    folder?: string;
  } = {},
): Run {
  const endpoint = createTableEndpoint(model, change.script);
  const learner = createTableLearner(model, change.start ?? freshState(tableAdapter(model, 0)));
  const controller = new AbortController();
  const target: PublishTarget = {
    endpoint,
    adapterRoot: join(root, change.folder ?? 'adapters'),
    runName: 'run',
    baseModel: BASE_MODEL,
    probeIds: [1, 3, 5, 2, 4, 6, 1],
  };
  const run = {
    learner,
    endpoint,
    outcomes: [],
    evaluated: [],
    evaluations: [],
    kept: [],
    controller,
  } as Omit<Run, 'parts'> as Run;
  run.parts = {
    config,
    context: tableContext(endpoint, { runId: 'run', seed: config.run.seed, ...change.context }),
    learner,
    target,
    train,
    validation,
    signal: controller.signal,
    onStep: async (outcome) => {
      run.outcomes.push(outcome);
    },
    onEvaluation: async (step, evaluation) => {
      run.evaluated.push(step);
      run.evaluations.push(evaluation);
    },
    keep: async (checkpoint) => {
      run.kept.push(structuredClone(checkpoint));
    },
  };
  Object.assign(run.parts, change.parts?.(run));
  return run;
}
async function begin(run: Run): Promise<Progress> {
  const policy = await publish(run.parts.target, run.learner, (await run.learner.state()).adapter, 0);
  return { step: 0, policy, cursor: 0, best: null, skippedInARow: 0, seconds: 0 };
}
const play = async (run: Run): Promise<Progress> => trainLoop(run.parts, await begin(run));
const keptSteps = ({ kept }: Run): number[] => kept.map(({ progress }) => progress.step);
const recallOf = ({ evaluations }: Run): number[] => evaluations.map(({ recall }) => recall);

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
      expect(update.mismatchMax).toBeLessThan(1e-6);
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

describe('checkpoints', () => {
  it('come every N steps and at the end, after what the step left', async () => {
    const order: string[] = [];
    const run = newRun(configOf(5, { train: { evalEvery: 2, checkpointEvery: 2 } }), {
      parts: () => ({
        onStep: async ({ step }) => void order.push(`step ${step}`),
        onEvaluation: async (step) => void order.push(`evaluation ${step}`),
        keep: async ({ progress }) => void order.push(`keep ${progress.step}`),
      }),
    });
    await play(run);
    expect(order).toEqual([
      'evaluation 0',
      'step 1',
      'step 2',
      'evaluation 2',
      'keep 2',
      'step 3',
      'step 4',
      'evaluation 4',
      'keep 4',
      'step 5',
      'evaluation 5',
      'keep 5',
    ]);
  });

  it('an interrupted run, resumed on an empty endpoint, is the run that was not, bit for bit', async () => {
    const config = configOf(7, {
      train: { evalEvery: 3, checkpointEvery: 50 },
      optimizer: { learningRate: 0.1, warmupSteps: 2, schedule: 'cosine' },
      advantage: { refill: 2 },
    });
    // Step 4 has nothing to teach, so that a checkpoint's policy version can be older than its step.
    const context = (steps: () => number): Partial<RolloutContext> => ({
      score: ({ pool }, { gold }) => ledgerOf(steps() === 3 ? 1 : pool.includes(gold[0]!) ? 1 : 0),
    });
    const whole: Run = newRun(config, { context: context(() => whole.outcomes.length), folder: 'whole' });
    const end = await play(whole);
    const wanted = await whole.learner.state();
    expect(whole.outcomes[3]!.update).toBe(null);

    for (const stopAfter of [1, 3, 4, 6]) {
      const folder = `cut-${stopAfter}`;
      const checkpoints = join(root, `${folder}-checkpoints`);
      const about = { configHash: 'h', baseModel: BASE_MODEL };
      const keep = async (checkpoint: Checkpoint) =>
        void (await writeCheckpoint(checkpoints, checkpoint, about));
      const cut: Run = newRun(config, {
        context: context(() => cut.outcomes.length),
        folder,
        parts: ({ outcomes, controller }) => ({
          keep,
          onStep: async (outcome) => {
            outcomes.push(outcome);
            if (outcome.step === stopAfter) controller.abort();
          },
        }),
      });
      expect((await play(cut)).step).toBe(stopAfter);

      const found = await latestCheckpoint(checkpoints, 'h', () => {});
      const rest: Run = newRun(config, {
        context: context(() => stopAfter + rest.outcomes.length),
        folder,
        start: found.learner,
        parts: () => ({ keep }),
      });
      const { progress } = found;
      const policy = await publish(
        rest.parts.target,
        rest.learner,
        found.learner.adapter,
        progress.policy.version,
      );
      expect(policy).toEqual(progress.policy);
      const resumed = await trainLoop(rest.parts, { ...progress, policy });

      expect(await rest.learner.state()).toEqual(wanted);
      expect({ ...resumed, seconds: 0 }).toEqual({ ...end, seconds: 0 });
      const timeless = ({ seconds: _, sampled, ...outcome }: StepOutcome) => ({
        ...outcome,
        sampled: { ...sampled, groups: sampled.groups.map((g) => g.map((t) => ({ ...t, timings: {} }))) },
      });
      expect([...cut.outcomes, ...rest.outcomes].map(timeless)).toEqual(whole.outcomes.map(timeless));
      expect([...cut.evaluated, ...rest.evaluated]).toEqual(whole.evaluated);
      expect([...cut.evaluations, ...rest.evaluations]).toEqual(whole.evaluations);
    }
  });

  it('a run that is finished already does nothing when it is resumed', async () => {
    const run = newRun(configOf(2));
    const end = await play(run);
    const again = newRun(configOf(2), { start: await run.learner.state() });
    expect(await trainLoop(again.parts, end)).toEqual(end);
    expect([again.outcomes, again.evaluated, again.kept]).toEqual([[], [], []]);
  });
});

describe('a signal', () => {
  it('ends the run after the step, with a checkpoint of it, and evaluates no more often than the run would', async () => {
    for (const at of [1, 2, 3]) {
      const run = newRun(configOf(9, { train: { evalEvery: 2, checkpointEvery: 2 } }), {
        folder: String(at),
        parts: ({ outcomes, controller }) => ({
          onStep: async (outcome) => {
            outcomes.push(outcome);
            if (outcome.step === at) controller.abort();
          },
        }),
      });
      const end = await play(run);
      expect(end.step).toBe(at);
      expect(keptSteps(run)).toEqual(at === 3 ? [2, 3] : [at]);
      expect(run.kept.at(-1)!.progress).toEqual(end);
      expect(run.kept.at(-1)!.learner).toEqual(await run.learner.state());
      expect(run.evaluated).toEqual(at === 1 ? [0] : [0, 2]);
    }
  });

  it('while a step samples: the step is finished whole', async () => {
    const run: Run = newRun(configOf(9), {
      script: async (_call, n) => {
        if (n === 20) run.controller.abort();
        return undefined;
      },
    });
    expect((await play(run)).step).toBe(1);
    expect(run.outcomes[0]!.sampled.groups.flat()).toHaveLength(24);
    expect(keptSteps(run)).toEqual([1]);
  });

  it('while an evaluation runs, also the first one: nothing that was done is lost', async () => {
    for (const at of [0, 3]) {
      const run = newRun(configOf(9, { train: { evalEvery: 3, checkpointEvery: 50 } }), {
        folder: String(at),
        parts: ({ controller }) => ({
          onEvaluation: async (step) => {
            if (step === at) controller.abort();
          },
        }),
      });
      expect((await play(run)).step).toBe(at);
      expect(keptSteps(run)).toEqual([at]);
      expect(run.kept[0]!.progress.best).not.toBe(null);
    }
  });

  it('a run that was stopped in its first evaluation does not evaluate again', async () => {
    const first = newRun(configOf(3), {
      parts: ({ controller }) => ({ onEvaluation: async () => controller.abort() }),
    });
    const end = await play(first);
    const rest = newRun(configOf(3), { start: first.kept[0]!.learner });
    const policy = await publish(rest.parts.target, rest.learner, first.kept[0]!.learner.adapter, 0);
    await trainLoop(rest.parts, { ...end, policy });
    expect(rest.evaluated).toEqual([2, 3]);
  });
});

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
    run.parts.target.endpoint = {
      ...run.endpoint,
      promptLogprobs: (name, ids) => run.endpoint.promptLogprobs(name === 'run-v2' ? 'run-v1' : name, ids),
    };
    await expect(play(run)).rejects.toMatchObject({ problem: 'differs-from-learner' });
    expect(run.outcomes.map(({ step }) => step)).toEqual([1]);
    expect(keptSteps(run)).toEqual([1]);
    expect(run.endpoint.log).not.toContain('unload run-v1');
    expect(run.endpoint.log.filter((line) => line === 'complete run-v2')).toEqual([]);
  });

  it('a version that cannot be loaded: likewise', async () => {
    const run: Run = newRun(configOf(9, { train: { checkpointEvery: 1 } }));
    const failure = new RolloutFailure('http', 'CUDA out of memory', 400);
    run.parts.target.endpoint = {
      ...run.endpoint,
      loadAdapter: async (name, path) => {
        if (name === 'run-v3') throw failure;
        await run.endpoint.loadAdapter(name, path);
      },
    };
    await expect(play(run)).rejects.toBe(failure);
    expect(run.endpoint.resident()).toEqual(['run-v2']);
    expect(keptSteps(run)).toEqual([1, 2]);
  });
});
