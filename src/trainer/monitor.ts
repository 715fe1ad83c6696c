/** What a trainer and a worker show of themselves to Prometheus and to whoever watches their health. */
import { messageOf } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import { type MonitorServer, startMonitorServer } from '../report/monitor-server.ts';
import {
  createHistogram,
  exposition,
  type Family,
  processFamilies,
  seriesFamilies,
  single,
} from '../report/prometheus.ts';
import type { RolloutPool } from '../rollout/pool/pool.ts';

export interface Monitor {
  /** The trainer took a step, or evaluated one: its figures, and the policy version now in use. */
  figures(step: number, values: Readonly<Record<string, number | null | undefined>>): void;
  policyVersion(version: number): void;
  /** Rollouts ended. */
  rolledOut(outcomes: readonly ('ok' | 'failed')[]): void;
  /** A group (trainer) or a rollout (worker) took so long. */
  took(seconds: number): void;
  /** Redis was lost or came back. */
  redis(ready: boolean): void;
  close(): Promise<void>;
}

export interface MonitorOptions {
  config: Config;
  role: 'trainer' | 'worker';
  /** Milliseconds since 1970. */
  now(): number;
  say(line: string): void;
}

/** Upper ends, seconds. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Opens the server where the section `monitor` gives a port for this role; UserError when it cannot. */
export async function openMonitor({ config, role, now, say }: MonitorOptions): Promise<Monitor> {
  const started = now();
  const { port, workerPort, host = '', stallMs = 0 } = config.monitor ?? {};
  const latency = createHistogram(
    role === 'trainer' ? 'lexpo_group_duration_seconds' : 'lexpo_rollout_duration_seconds',
    role === 'trainer' ? 'From asking for a group to having it.' : 'Of a rollout.',
    BOUNDS,
  );
  const outcomes = { ok: 0, failed: 0 };
  let values: Record<string, number | null | undefined> = {};
  let step = 0;
  let version: number | null = null;
  let movedAt = started;
  let lostAt: number | null = null;

  function families(): Family[] {
    const { rss, heapUsed } = process.memoryUsage();
    const startedAt = started / 1000;
    return [
      {
        name: 'lexpo_info',
        help: 'Run and role of this process; always 1.',
        type: 'gauge',
        samples: [{ labels: { run: config.run.name, role }, value: 1 }],
      },
      ...(role === 'trainer'
        ? [
            single('gauge', 'lexpo_step', 'Steps done.', step),
            single(
              'gauge',
              'lexpo_last_step_timestamp_seconds',
              'End of the last step, seconds since 1970.',
              movedAt / 1000,
            ),
            ...(version === null
              ? []
              : [single('gauge', 'lexpo_policy_version', 'Version in use.', version)]),
          ]
        : []),
      {
        name: 'lexpo_rollouts_total',
        help: 'Rollouts that ended, by outcome.',
        type: 'counter',
        samples: Object.entries(outcomes).map(([outcome, value]) => ({ labels: { outcome }, value })),
      },
      latency.family(),
      ...seriesFamilies(values),
      ...(config.pool
        ? [single('gauge', 'lexpo_redis_up', '1: Redis is connected.', lostAt === null ? 1 : 0)]
        : []),
      ...processFamilies({ rss, heapUsed, cpu: process.cpuUsage(), startedAt }),
    ];
  }

  function health(): string | null {
    const at = now();
    if (lostAt !== null && at - lostAt > stallMs)
      return `without Redis for ${Math.round((at - lostAt) / 1000)} s`;
    if (role === 'trainer' && at - movedAt > stallMs)
      return `no step for ${Math.round((at - movedAt) / 1000)} s (monitor.stallMs)`;
    return null;
  }

  const own = role === 'trainer' ? port : workerPort;
  let server: MonitorServer | null = null;
  if (own !== undefined) {
    const setting = role === 'trainer' ? 'monitor.port' : 'monitor.workerPort';
    server = await startMonitorServer({
      host,
      port: own,
      setting,
      metrics: () => exposition(families()),
      health,
    });
    say(`metrics and health: ${server.url}/metrics, ${server.url}/health`);
  }
  return {
    figures(at, found) {
      step = at;
      values = { ...values, ...found };
      movedAt = now();
    },
    policyVersion(now) {
      version = now;
    },
    rolledOut(ended) {
      for (const outcome of ended) outcomes[outcome]++;
    },
    took: latency.observe,
    redis(ready) {
      lostAt = ready ? null : (lostAt ?? now());
    },
    close: async () => server?.close(),
  };
}

/** The pool, each group and its members' outcomes counted. `now`: milliseconds, monotonic. */
export function watchedPool<P extends RolloutPool>(pool: P, monitor: Monitor, now: () => number): P {
  return {
    ...pool,
    async rollOutGroup(request) {
      const from = now();
      monitor.policyVersion(request.policy.version);
      const results = await pool.rollOutGroup(request);
      monitor.rolledOut(results.map(({ kind }) => kind));
      monitor.took((now() - from) / 1000);
      return results;
    },
  };
}

/** A rollout of a worker, counted; `tell` hears how it ended. */
export async function watched<T>(
  monitor: Monitor,
  rollOut: () => Promise<T>,
  tell: (end: string, seconds: number) => void = () => {},
): Promise<T> {
  const from = performance.now();
  const end = (outcome: 'ok' | 'failed', text: string): void => {
    const seconds = (performance.now() - from) / 1000;
    monitor.rolledOut([outcome]);
    monitor.took(seconds);
    tell(text, seconds);
  };
  try {
    const result = await rollOut();
    end('ok', 'done');
    return result;
  } catch (error) {
    end('failed', `failed (${messageOf(error)})`);
    throw error;
  }
}
