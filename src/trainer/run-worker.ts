/** What `lexpo worker` does: rollouts of one run, for a trainer elsewhere. */
import { UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import { weightsMark } from '../engine/weights-mark.ts';
import { createEndpoint } from '../rollout/endpoint.ts';
import type { Servers } from '../rollout/pool/job.ts';
import { openRedis } from '../rollout/pool/redis-connection.ts';
import { readAnnouncement, work } from '../rollout/pool/redis-worker.ts';
import { spreadCalls } from '../rollout/pool/spread-calls.ts';
import { rollOutOnce } from '../rollout/roll-out.ts';
import { createEnvironment } from './environment.ts';
import { type Monitor, openMonitor, watched } from './monitor.ts';
import { endpointKey } from './policy-service.ts';
import { resultsDir, runFacts } from './pool.ts';
import { loadData, loadModel, rolloutContext, trainSampling } from './prepare.ts';
import { redisAddress } from './redis-address.ts';

/** Of trying to reach Redis, at the start. */
const CONNECT_MS = 30_000;

export interface WorkOptions {
  config: Config;
  /** Rollouts under way at once. */
  concurrency: number;
  /** Fires when the worker is to leave. */
  signal: AbortSignal;
  say(line: string): void;
  /** Told every rollout that ended; for structured logs. */
  trace?(line: string): void;
}

/**
 * Works until the signal fires; gives the number of rollouts done.
 * @throws UserError when Redis is not fit, or the trainer has another configuration, other data or another version.
 */
export async function runWorker({ config, concurrency, signal, say, trace }: WorkOptions): Promise<number> {
  if (!config.pool)
    throw new UserError(
      'is not set: the trainer rolls out by itself',
      'pool',
      'add the section pool, such as pool: {}',
    );
  const { jobDeadlineMs, backoffMs, lockMs, drainMs } = config.pool;
  const address = redisAddress(config.pool);
  const apiKey = endpointKey(config);
  const data = await loadData(config);
  const model = loadModel(config.model.path, config.model.chatTemplate);
  const facts = runFacts(config, data, model, weightsMark(model.folder));
  const queries = new Map(data.train.map((query) => [query.id, query]));
  const sampling = trainSampling(config);
  const environment = createEnvironment(config, data, { say });
  const redis = await openRedis(address, { withinMs: CONNECT_MS, say });
  let servers: Servers = {};
  const endpoint = spreadCalls({
    servers: () => servers,
    async ask() {
      // Without an answer nothing is known to be proved, and the job is tried again.
      const now = await readAnnouncement(redis, address.prefix, config.run.name).catch(() => null);
      servers = now?.endpoints ?? {};
      return servers;
    },
    open: (baseUrl) =>
      createEndpoint({
        baseUrl,
        apiKey,
        deadlineMs: config.rollout.deadlineMs,
        maxConcurrent: config.rollout.concurrency,
        decode: (ids) => model.tokenizer.decode(ids, { skipSpecial: true }),
      }),
  });
  const context = rolloutContext(config, model, environment, endpoint);
  let monitor: Monitor | null = null;
  try {
    const watch = await openMonitor({ config, role: 'worker', now: Date.now, say });
    monitor = watch;
    redis.on('ready', () => watch.redis(true)).on('close', () => watch.redis(false));
    return await work({
      redis,
      prefix: address.prefix,
      run: config.run.name,
      facts,
      resultsDir: resultsDir(config),
      concurrency,
      jobDeadlineMs,
      backoffMs,
      lockMs,
      drainMs,
      useEndpoints: (now) => {
        servers = now;
      },
      perform: ({ queryId, policy, weights, step, member, attempt }, given) => {
        const query = queries.get(queryId);
        if (!query) throw new UserError(`has no question ${queryId}`, config.data.train);
        const id = { purpose: 'train', step, member, attempt };
        // A run that was started afresh has the names of the one before it, and a server may remember those.
        const salted = { ...policy, salt: `v${policy.version}-${weights.slice(0, 16)}` };
        const name = `step ${step}: trajectory ${queryId}/${member}/${attempt}`;
        return watched(
          watch,
          () => rollOutOnce(context, query, salted, sampling, id, given),
          (end, seconds) => trace?.(`${name} ${end} after ${seconds.toFixed(3)} s by ${policy.model}`),
        );
      },
      signal,
      say,
    });
  } finally {
    await monitor?.close();
    redis.disconnect();
  }
}
