/** The status of a run as a person reads it. */
import { formatTable } from '../../report/tables.ts';
import { duration } from '../../report/text.ts';
import type { PoolStatus, QueueCounts } from './read-pool.ts';
import type { ReplicaStatus } from './read-replicas.ts';
import type { RunStatus } from './read-run.ts';

export interface RetrainStatus {
  champion: string | null;
  /** The job under way, or left unfinished, in a line; null: none is. */
  job: string | null;
  /** What the last job came to, in a line. */
  last: string | null;
  /** ISO times; null: not scheduled. */
  next: string | null;
  /** Those of `retrain.serve`, with the champions that each has loaded. */
  servers: Pick<ReplicaStatus, 'url' | 'problem' | 'adapters'>[];
}

export interface Status {
  name: string;
  run: RunStatus;
  /** Null: the run has no pool, or Redis does not answer (`problem`). */
  pool: PoolStatus | null;
  /** Versions between what rollouts are asked for and the newest adapter; null: no trainer says. */
  staleness: number | null;
  replicas: ReplicaStatus[];
  retrain: RetrainStatus | null;
  /** Why Redis says nothing. */
  problem: string | null;
}

const KEY_METRICS = ['reward/mean', 'reward/recall', 'eval/recall', 'policy/entropy', 'rollout/failed'];

export function statusText(status: Status): string {
  const { name, run, pool, replicas, retrain, staleness } = status;
  const metrics = KEY_METRICS.filter((key) => run.metrics[key] !== undefined);
  const lines = [
    `${name}: ${run.state === 'absent' && retrain && !pool ? 'retraining; each job is a run of its own' : stateText(run, pool)}`,
    ...(run.state === 'absent'
      ? []
      : [`step ${run.step} of ${run.steps}, policy ${run.adapter ?? 'none yet'}`]),
    ...(staleness === null
      ? []
      : [
          `rollouts are asked for ${staleness} version${staleness === 1 ? '' : 's'} behind the newest adapter`,
        ]),
    ...(metrics.length > 0
      ? [metrics.map((key) => `${key} ${run.metrics[key]!.toFixed(3)}`).join('  ')]
      : []),
    ...(pool ? poolLines(pool) : []),
    ...(replicas.length > 0 ? replicaLines(replicas) : []),
    ...(retrain
      ? [
          `retraining: champion ${retrain.champion ?? 'none'}, next ${retrain.next ?? 'not scheduled'}`,
          `  job: ${retrain.job ?? 'none is under way'}`,
          `  last: ${retrain.last ?? 'no job has ended yet'}`,
          ...retrain.servers.map((server) => `  ${server.url}: ${servingText(server, retrain.champion)}`),
        ]
      : []),
  ];
  return `${lines.join('\n')}\n`;
}

function servingText(
  { problem, adapters }: RetrainStatus['servers'][number],
  champion: string | null,
): string {
  if (problem !== null) return problem;
  if (champion === null) return 'answers';
  return adapters.includes(champion)
    ? 'has the champion loaded'
    : 'does not have the champion: load it with lexpo retrain <config> --serve';
}

function stateText({ state, holder, quietMs, folder }: RunStatus, pool: PoolStatus | null): string {
  const quiet = quietMs === null ? '' : `, last figures ${duration(quietMs / 1000)} ago`;
  switch (state) {
    case 'absent':
      return pool?.trainer
        ? `${folder} holds no run, though Redis says that it is trained: look whether run.dir is right`
        : `nothing runs, and ${folder} holds no run`;
    case 'running':
      return `runs (${holder})${quiet}`;
    case 'stopped':
      return `not finished, and nobody on this machine works on it${quiet}`;
    case 'finished':
      return `finished${quiet}`;
  }
}

function poolLines({ trainer, rollouts, groups, workers, ...rest }: PoolStatus): string[] {
  const row = (name: string, { waiting, active, delayed, failed }: QueueCounts): string[] =>
    [name, waiting, active, delayed, failed].map(String);
  const rate =
    rest.doneLastMinute === null && rest.failedLastMinute === 0
      ? 'no rollout was counted yet'
      : `${rest.doneLastMinute ?? 0} rollouts in the last whole minute, ${rest.failedLastMinute} attempts failed`;
  return [
    trainer ? `trainer: rolls out ${trainer.policy?.model ?? 'nothing yet'}` : 'trainer: none is at work',
    '',
    formatTable(
      ['queue', 'waiting', 'active', 'delayed', 'failed'],
      [row('rollouts', rollouts), row('groups', groups)],
    ),
    rate,
    ...(rest.oldest
      ? [`oldest job: ${rest.oldest.job}, ${rest.oldest.state}, ${duration(rest.oldest.ageMs / 1000)} old`]
      : []),
    '',
    workers.length === 0
      ? 'no worker is connected: start some by lexpo worker'
      : formatTable(
          ['worker', 'address', 'jobs', 'last seen', 'connected'],
          workers.map((worker) => [
            worker.name,
            worker.address,
            String(worker.jobs.length),
            `${worker.lastSeenSeconds} s ago`,
            duration(worker.connectedSeconds),
          ]),
        ),
  ];
}

function replicaLines(replicas: readonly ReplicaStatus[]): string[] {
  const stateOf = ({ inRotation, problem }: ReplicaStatus): string => {
    if (problem !== null) return problem;
    if (inRotation === null) return 'answers';
    return inRotation ? 'in rotation' : 'out of rotation, though it answers: see the log of the trainer';
  };
  return [
    '',
    formatTable(
      ['server', 'state', 'adapters'],
      replicas.map((one) => [one.url, stateOf(one), one.adapters.join(' ') || null]),
    ),
  ];
}
