/**
 * Steps that are sampled while the learner is at an earlier one.
 *
 * Which version samples a step is fixed, so that timing changes nothing: with `depth` d, step s is sampled by the
 * policy that step s − 1 − d left (of the first d + 1 steps: the start). When step t has been learnt and
 * published, steps t + 1 … t + d are under way or done and step t + 1 + d begins: never more than d + 1 at once,
 * and of no more than d + 1 versions. With d = 0 a step begins when it is wanted: on-policy.
 */
import { setMaxListeners } from 'node:events';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import type { Progress } from './checkpoint.ts';
import type { SampledStep } from './sample-step.ts';

export interface AheadOptions {
  /** `train.maxStaleness`. */
  depth: number;
  /** `train.steps`. */
  lastStep: number;
  /** Questions that a step draws; null: known only when it has been sampled, since it may draw more. */
  questionsPerStep: number | null;
  sample(step: number, policy: PolicyVersion, cursor: number, signal: AbortSignal): Promise<SampledStep>;
}

export interface Ahead {
  /** Starts every step that may be sampled after `progress.step` and is not under way. */
  fill(progress: Progress): void;
  /** A step that was started, once: its samples, or the error that ended its sampling. */
  take(step: number): Promise<SampledStep>;
  /** Gives up what is under way, and ends when it has ended. */
  close(): Promise<void>;
}

export function sampleAhead({ depth, lastStep, questionsPerStep, sample }: AheadOptions): Ahead {
  const started = new Map<number, { sampled: Promise<SampledStep>; stop: AbortController }>();

  async function begin(step: number, progress: Progress, signal: AbortSignal): Promise<SampledStep> {
    const policies = policiesInUse(progress);
    const policy = policies[Math.max(0, policies.length - 1 - depth + (step - 1 - progress.step))]!;
    const before = questionsPerStep === null ? started.get(step - 1)?.sampled : undefined;
    const cursor = before
      ? (await before).cursor
      : progress.cursor + (step - 1 - progress.step) * (questionsPerStep ?? 0);
    signal.throwIfAborted();
    return sample(step, policy, cursor, signal);
  }

  return {
    fill(progress) {
      const upTo = Math.min(progress.step + 1 + depth, lastStep);
      for (let step = progress.step + 1; step <= upTo; step++) {
        if (started.has(step)) continue;
        // One a step: every call of the step hangs on it, and would on one for the whole run to its end.
        const stop = new AbortController();
        setMaxListeners(0, stop.signal);
        const sampled = begin(step, progress, stop.signal);
        // Whoever takes the step hears of it; until then, and for a step that nobody takes, it is no crash.
        sampled.catch(() => {});
        started.set(step, { sampled, stop });
      }
    },
    take(step) {
      const found = started.get(step);
      if (!found) throw new Error(`step ${step} was not started, or was taken already`);
      started.delete(step);
      return found.sampled;
    },
    async close() {
      for (const { stop } of started.values()) stop.abort(new Error('the steps ahead were given up'));
      await Promise.allSettled([...started.values()].map(({ sampled }) => sampled));
    },
  };
}

/** The policies that steps to come are sampled by, oldest first, the newest last; one stands there once a step. */
const policiesInUse = ({ earlier = [], policy }: Progress): PolicyVersion[] => [...earlier, policy];

/** `earlier` of the progress that follows on `progress`; undefined when on-policy. */
export function nextEarlier(progress: Progress, depth: number): Progress['earlier'] {
  return depth === 0 ? undefined : policiesInUse(progress).slice(-depth);
}

/** Versions published since the one that sampled: mean and largest over the trajectories that are left. */
export interface Staleness {
  mean: number;
  max: number;
  /** Trajectories that were left out. */
  dropped: number;
}

/**
 * Takes out what was sampled by a version that is no longer in use: such a trajectory becomes a failed member,
 * so that its group closes or is dropped as after any other failure.
 */
export function dropStale(
  sampled: SampledStep,
  progress: Progress,
): { sampled: SampledStep; staleness: Staleness } {
  const versions = [...new Set(policiesInUse(progress).map(({ version }) => version))];
  const ages: number[] = [];
  const failures = [...sampled.failures];
  const groups = sampled.groups.map((group) =>
    group.filter(({ queryId, member, policyVersion }) => {
      const at = versions.indexOf(policyVersion);
      if (at >= 0) ages.push(versions.length - 1 - at);
      else {
        const reason = `stale: sampled by version ${policyVersion}, in use are ${versions.join(', ')}`;
        failures.push({ kind: 'failed', queryId, member, reason });
      }
      return at >= 0;
    }),
  );
  return {
    sampled: { ...sampled, groups, failures },
    staleness: {
      mean: ages.reduce((a, b) => a + b, 0) / Math.max(1, ages.length),
      max: Math.max(0, ...ages),
      dropped: failures.length - sampled.failures.length,
    },
  };
}
