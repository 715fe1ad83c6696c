/** `lexpo status`: how a run stands, read from its folder, Redis and the policy servers; changes nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../base/errors.ts';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { openRedis, type RedisAddress, withDeadline } from '../rollout/pool/redis-connection.ts';
import { parseAdapterName } from '../trainer/adapter-name.ts';
import { endpointKey, serverKey } from '../trainer/policy-service.ts';
import { redisAddress } from '../trainer/redis-address.ts';
import { recordLine } from '../trainer/retrain/history-text.ts';
import { currentChampion, readHistory, registryAt } from '../trainer/retrain/registry.ts';
import { listSchedules } from '../trainer/retrain/schedule.ts';
import { onInterrupt } from './interrupt.ts';
import type { Streams } from './main.ts';
import { readRetrainJob } from './status/read-job.ts';
import { type PoolStatus, readPool } from './status/read-pool.ts';
import { readReplicas } from './status/read-replicas.ts';
import { readRun } from './status/read-run.ts';
import { type Status, statusText } from './status/status-text.ts';

export interface StatusOptions {
  set: string[];
  json?: boolean;
  watch?: boolean;
}

const WATCH_MS = 2_000;
/** Of trying to reach Redis, and of its answers. */
const WITHIN_MS = 2_000;

/** Shows the status; exit code 0, or 1 when Redis, where one is configured, says nothing. */
export async function status(
  file: string,
  options: StatusOptions,
  streams: Streams,
  now: () => number = Date.now,
): Promise<number> {
  const config = loadConfig(file, options);
  const interrupt = onInterrupt(() => {});
  try {
    for (;;) {
      const found = await readStatus(config, now());
      if (options.watch && !options.json && streams.stdout.isTTY) streams.stdout.write('\u001b[H\u001b[2J');
      streams.stdout.write(options.json ? `${JSON.stringify(found)}\n` : statusText(found));
      if (found.problem !== null) streams.stderr.write(`lexpo: ${found.problem}\n`);
      if (!options.watch) return found.problem === null ? 0 : 1;
      await sleep(WATCH_MS, undefined, { signal: interrupt.signal }).catch(() => {});
      if (interrupt.signal.aborted) return 0;
    }
  } finally {
    interrupt.stop();
  }
}

/** `now`: milliseconds since 1970. */
async function readStatus(config: Config, now: number): Promise<Status> {
  const run = readRun(config, now);
  const { name } = config.run;
  let problem: string | null = null;
  const ask = async <T>(
    address: () => RedisAddress,
    use: (at: RedisAddress) => Promise<T>,
  ): Promise<T | null> => {
    if (problem !== null) return null;
    try {
      return await use(address());
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problem = error.message;
      return null;
    }
  };
  const pool = config.pool
    ? await ask(
        () => redisAddress(config.pool!),
        (at) => poolOf(at, name, now),
      )
    : null;
  const urls = config.endpoint.kind === 'vllm' ? config.endpoint.replicas.map(({ url }) => url) : [];
  const replicas = await readReplicas(
    urls,
    pool?.trainer ? Object.keys(pool.trainer.endpoints) : null,
    name,
    endpointKey(config),
  );
  const { retrain } = config;
  const next =
    retrain &&
    (await ask(
      () => redisAddress(retrain, process.env, 'retrain.redis'),
      (at) => nextOf(at, name),
    ));
  const registry = retrain && registryAt(retrain.registry);
  const job = retrain ? readRetrainJob({ ...config, retrain }, now) : null;
  const serve = retrain?.serve;
  const serving = serve
    ? await readReplicas(
        serve.replicas.map(({ url }) => url),
        null,
        name,
        serverKey(serve.apiKeyEnv),
      )
    : [];
  const last = registry && readHistory(registry).at(-1);
  const asked = pool?.trainer?.policy?.version;
  const newest = run.adapter === null ? undefined : parseAdapterName(run.adapter)?.version;
  return {
    name,
    run,
    pool,
    staleness: asked === undefined || newest === undefined ? null : Math.max(0, newest - asked),
    replicas,
    retrain: registry
      ? {
          champion: currentChampion(registry),
          job,
          last: last ? recordLine(last) : null,
          next: next ?? null,
          servers: serving.map(({ url, problem, adapters }) => ({ url, problem, adapters })),
        }
      : null,
    problem,
  };
}

async function withRedis<T>(
  address: RedisAddress,
  use: (redis: Awaited<ReturnType<typeof openRedis>>) => Promise<T>,
): Promise<T> {
  const redis = await openRedis(address, { withinMs: WITHIN_MS, say: () => {} });
  try {
    return await withDeadline(use(redis), WITHIN_MS, 'Redis does not answer in time');
  } finally {
    redis.disconnect();
  }
}

const poolOf = (at: RedisAddress, run: string, now: number): Promise<PoolStatus> =>
  withRedis(at, (redis) => readPool(redis, at.prefix, run, now));

const nextOf = (at: RedisAddress, name: string): Promise<string | null> =>
  withRedis(at, async (redis) => {
    const all = await listSchedules({ redis, prefix: at.prefix });
    return all.find((one) => one.name === name)?.next?.toISOString() ?? null;
  });
