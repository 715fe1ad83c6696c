import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RolloutContext } from '../rollout/roll-out.ts';
import { type Checkpoint, latestCheckpoint, writeCheckpoint } from './checkpoint.ts';
import { type StepOutcome, trainLoop } from './loop.ts';
import { publish } from './publish.ts';
import { BASE_MODEL } from './test-support.ts';
import { configOf, keptSteps, newRun, play, type Run, root } from './test-support-loop.ts';
import { ledgerOf } from './test-support-rollout.ts';

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

      const found = (await latestCheckpoint(checkpoints, 'h', () => {}))!;
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
