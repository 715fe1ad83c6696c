/** Sampling of one step: which questions are drawn, their groups, and replacements for groups that teach nothing. */
import { allOrStop } from '../base/all-or-stop.ts';
import { stream } from '../base/random.ts';
import type { Query } from '../env/types.ts';
import type { RolloutPool } from '../rollout/pool/pool.ts';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import type { RolloutResult, Trajectory } from '../rollout/trajectory.ts';

/**
 * The questions number `cursor … cursor + count − 1` of the run: every epoch is its own shuffle of all
 * questions, so a resumed run goes on with the next one.
 */
export function drawQueries(queries: readonly Query[], seed: number, cursor: number, count: number): Query[] {
  const out: Query[] = [];
  let epoch = -1;
  let order: Query[] = [];
  for (let i = cursor; i < cursor + count; i++) {
    const needed = Math.floor(i / queries.length);
    if (needed !== epoch) {
      epoch = needed;
      order = stream(seed, 'order', epoch).shuffle(queries);
    }
    out.push(order[i % queries.length]!);
  }
  return out;
}

export interface SampleConfig {
  /** Of the order of the questions. */
  seed: number;
  queriesPerStep: number;
  groupSize: number;
  /** Extra groups in place of those that `teaches` refuses, at most. */
  refill: number;
}

export interface SampledStep {
  /** By question drawn; failed members are left out. */
  groups: Trajectory[][];
  failures: Extract<RolloutResult, { kind: 'failed' }>[];
  cursor: number;
}

/**
 * Samples the step's groups, and up to `refill` more while some of them teach nothing. A question that is
 * drawn again within the step (few questions, or the end of an epoch) gets a group of its own, whose members
 * are numbered on. Rejects when a group does, or `signal` fires, and nothing is under way
 * then.
 */
export async function sampleStep(
  pool: RolloutPool,
  queries: readonly Query[],
  policy: PolicyVersion,
  step: number,
  cursor: number,
  config: SampleConfig,
  teaches: (group: Trajectory[]) => boolean,
  signal?: AbortSignal,
): Promise<SampledStep> {
  const out: SampledStep = { groups: [], failures: [], cursor };
  const membersOf = new Map<string, number>();
  let wanted = config.queriesPerStep;
  let extra = config.refill;
  while (wanted > 0) {
    const drawn = drawQueries(queries, config.seed, out.cursor, wanted);
    out.cursor += wanted;
    const results = await allOrStop(signal, (stop) =>
      drawn.map((query) => {
        const size = config.groupSize;
        const first = membersOf.get(query.id) ?? 0;
        membersOf.set(query.id, first + size);
        return pool.rollOutGroup({ query, policy, step, size, firstMember: first, signal: stop });
      }),
    );
    for (const group of results) {
      const good = group.flatMap((r) => (r.kind === 'ok' ? [r.trajectory] : []));
      out.groups.push(good);
      out.failures.push(...group.flatMap((r) => (r.kind === 'failed' ? [r] : [])));
    }
    const missing = config.queriesPerStep - out.groups.filter(teaches).length;
    wanted = Math.min(missing, extra, queries.length);
    extra -= wanted;
  }
  return out;
}
