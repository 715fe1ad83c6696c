import { describe, expect, it } from 'vitest';
import type { Trajectory } from '../rollout/trajectory.ts';
import { updatePolicy } from './policy-update.ts';
import { createTableLearner, freshState, tableAdapter } from './test-support.ts';
import { callsOf, model, randomGroups, settings, trained } from './test-support-update.ts';

describe('values that cannot be trained on', () => {
  const broken = (change: (t: Trajectory) => void): Promise<unknown> => {
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    change(groups[1]![2]!);
    return trained(callsOf(groups)).then(
      () => 'trained',
      (error: Error) => error.message,
    );
  };
  const where = /step 1.*q1.*member 2.*call 0/;

  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, -9999])
    it(`a sampler log-probability of ${bad} is an error that names the sample`, async () => {
      const message = await broken(({ calls }) => {
        calls[0]!.logprobs[0] = bad;
      });
      expect(message).toMatch(where);
      expect(message).toMatch(String(bad));
    });

  it('log-probabilities shifted by one fail, also when another call makes up for the count', async () => {
    const message = await broken(({ calls }) => {
      calls[0]!.logprobs.push(-1);
    });
    expect(message).toMatch(where);
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    groups[1]![2]!.calls[0]!.logprobs.push(-1);
    groups[0]![1]!.calls[0]!.logprobs.pop();
    await expect(trained(callsOf(groups))).rejects.toThrow(/log-probabilities/);
  });

  it('changes nothing in the learner', async () => {
    const groups = randomGroups(5, tableAdapter(model, 0.5), 1, 2);
    groups[1]![2]!.calls[0]!.logprobs[0] = Number.NaN;
    const learner = createTableLearner(model, freshState(tableAdapter(model, 0.5)));
    const before = await learner.state();
    await expect(updatePolicy(learner, callsOf(groups), () => 0.1, settings())).rejects.toThrow();
    expect(await learner.state()).toEqual(before);
    expect(learner.counts.accumulate).toBe(0);
  });
});

describe('a gradient that is not finite', () => {
  it('is counted for each epoch it meets, and leaves adapter and moments as they were', async () => {
    const adapter = tableAdapter(model, 0.5);
    const calls = callsOf(randomGroups(6, adapter));
    const learner = createTableLearner(model, freshState(adapter));
    learner.poison(2);
    const stats = await updatePolicy(learner, calls, () => 0.1, settings({ epochs: 2 }));
    expect(stats.skipped).toBe(2);
    expect(await learner.state()).toEqual(freshState(adapter));
    learner.poison(1);
    expect((await updatePolicy(learner, calls, () => 0.1, settings({ epochs: 3 }))).skipped).toBe(1);
    expect((await learner.state()).optimizer.step).toBe(2);
  });
});
