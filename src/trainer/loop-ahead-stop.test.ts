/** The loop with `train.maxStaleness` above 0, when it is stopped and resumed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { RolloutFailure } from '../rollout/endpoint.ts';
import type { Checkpoint } from './checkpoint.ts';
import { trainLoop } from './loop.ts';
import { publish, publishAgain } from './publish.ts';
import {
  configAhead,
  failOnUnhandled,
  keptSteps,
  newRun,
  play,
  type Run,
  timeless,
} from './test-support-loop.ts';
import { ledgerOf } from './test-support-rollout.ts';

failOnUnhandled();

describe('a run that is stopped', () => {
  it('and resumed on an empty endpoint is the run that was not, bit for bit', async () => {
    for (const [depth, refill] of [
      [1, 0],
      [1, 2],
      [3, 0],
      [3, 2],
    ] as const) {
      // Step 3 has nothing to teach, so that a version is used for longer.
      const config = configAhead(8, depth, {
        train: { evalEvery: 3, checkpointEvery: 50 },
        optimizer: { learningRate: 0.1, warmupSteps: 2, schedule: 'cosine' },
        advantage: { refill },
      });
      const label = `${depth}-${refill}`;
      const start = (folder: string, stopAfter: number, learner?: Checkpoint['learner']): Run => {
        const run = newRun(config, {
          folder,
          ...(learner && { start: learner }),
          parts: ({ outcomes, controller }) => ({
            onStep: async (outcome) => {
              outcomes.push(outcome);
              if (outcome.step === stopAfter) controller.abort();
            },
          }),
        });
        const { rollOutGroup } = run.parts.pool;
        run.parts.pool.rollOutGroup = async (request) => {
          const results = await rollOutGroup(request);
          for (const result of results)
            if (result.kind === 'ok' && request.step === 3) result.trajectory.ledger = ledgerOf(1);
          return results;
        };
        return run;
      };
      const whole = start(`whole-${label}`, 99);
      const end = await play(whole);
      expect(whole.outcomes[2]!.update).toBe(null);
      for (const stopAfter of [1, 2, 3, 4, 6]) {
        const folder = `cut-${label}-${stopAfter}`;
        const cut = start(folder, stopAfter);
        expect((await play(cut)).step).toBe(stopAfter);
        const found = cut.kept.at(-1)!;
        const rest = start(folder, 99, found.learner);
        const { progress } = found;
        const before = progress.earlier!.filter(({ model }) => model !== progress.policy.model);
        await publishAgain(rest.parts.target, before);
        const policy = await publish(
          rest.parts.target,
          rest.learner,
          found.learner.adapter,
          progress.policy.version,
        );
        expect(policy).toEqual(progress.policy);
        const resumed = await trainLoop(rest.parts, progress);
        expect(await rest.learner.state()).toEqual(await whole.learner.state());
        expect({ ...resumed, seconds: 0 }).toEqual({ ...end, seconds: 0 });
        expect([...cut.outcomes, ...rest.outcomes].map(timeless)).toEqual(whole.outcomes.map(timeless));
        expect([...cut.evaluations, ...rest.evaluations]).toEqual(whole.evaluations);
      }
    }
  });

  it('gives up the rollouts ahead: no call after its end, none made to wait for', async () => {
    let underWay = 0;
    const run: Run = newRun(configAhead(9, 2), {
      parts: ({ outcomes, controller }) => ({
        onStep: async (outcome) => {
          outcomes.push(outcome);
          if (outcome.step === 2) controller.abort();
        },
      }),
    });
    const { complete } = run.parts.context.endpoint;
    run.parts.context.endpoint.complete = async (call) => {
      underWay++;
      try {
        // The steps after the second never end by themselves; as an endpoint does, the call ends by its signal.
        if (call.temperature > 0 && run.outcomes.length >= 1 && call.model !== 'run-v0')
          await new Promise((_, reject) => {
            const stop = (): void => reject(new RolloutFailure('cancelled', 'the call was given up'));
            if (call.signal!.aborted) stop();
            call.signal!.addEventListener('abort', stop);
          });
        return await complete(call);
      } finally {
        underWay--;
      }
    };
    expect((await play(run)).step).toBe(2);
    expect(keptSteps(run)).toEqual([2]);
    expect(underWay).toBe(0);
    const calls = run.endpoint.log.length;
    await sleep(10);
    expect(run.endpoint.log.length).toBe(calls);
  });
});
