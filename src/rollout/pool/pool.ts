/** Who rolls out the groups of a step: this process, or workers (`redis-pool.ts`). */
import type { Query } from '../../env/types.ts';
import { type PolicyVersion, type RolloutContext, rollOutGroup, type Sampling } from '../roll-out.ts';
import type { RolloutResult } from '../trajectory.ts';

export interface GroupRequest {
  query: Query;
  policy: PolicyVersion;
  step: number;
  /** Members `firstMember … firstMember + size − 1` of the question in this step. */
  size: number;
  firstMember: number;
  /** Fires when nobody wants the group any more: it is given up, and its promise rejects. */
  signal?: AbortSignal;
}

/**
 * Gives every member's one result, in member order. What a member samples depends on (seed, step, query,
 * member, attempt) only, so every pool gives the same trajectories, timings apart.
 */
export interface RolloutPool {
  rollOutGroup(request: GroupRequest): Promise<RolloutResult[]>;
}

/** The pool within this process. */
export const inProcessPool = (context: RolloutContext, sampling: Sampling): RolloutPool => ({
  rollOutGroup: ({ query, policy, step, size, firstMember, signal }) =>
    rollOutGroup(context, query, policy, sampling, step, size, firstMember, signal),
});
