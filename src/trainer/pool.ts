/** The pool of a run as its configuration says: within this process, or workers over Redis. */
import { randomUUID } from 'node:crypto';
import { join, resolve } from 'node:path';
import { sha256OfFile, shortHash } from '../base/hash.ts';
import { version } from '../base/version.ts';
import type { Config } from '../config/schema.ts';
import type { Facts, Servers } from '../rollout/pool/job.ts';
import { inProcessPool, type RolloutPool } from '../rollout/pool/pool.ts';
import { addressName, openRedis } from '../rollout/pool/redis-connection.ts';
import { openRedisPool, type PoolCounts, type RedisPool } from '../rollout/pool/redis-pool.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import { type Data, type Model, trainSampling } from './prepare.ts';
import { redisAddress } from './redis-address.ts';
import { type RunFolder, runFolder } from './run-folder.ts';
import { sharedSettings } from './same-run.ts';

export interface TrainerPool extends RolloutPool {
  /** What the steps up to `step` left for a resumed run is no longer needed. */
  forget(step: number): Promise<void>;
  /** Null for the pool within this process. */
  counts(): Promise<PoolCounts | null>;
  close(): Promise<void>;
}

export interface PoolParts {
  config: Config;
  data: Data;
  model: Model;
  context: RolloutContext;
  replicas: Pick<Replicas, 'state' | 'onReturn'>;
  folder: Pick<RunFolder, 'adapters'>;
  /** `weightsMark` of the base model. */
  baseWeights: string;
  say(line: string): void;
  /** Told when Redis is lost, and when it is back. */
  onRedis(ready: boolean): void;
}

/** Of trying to reach Redis, at the start. */
const CONNECT_MS = 30_000;

/** UserError when Redis is not there, refuses us, or is not fit. */
export async function openPool(parts: PoolParts): Promise<TrainerPool> {
  const { config, data, model, context, replicas, folder, baseWeights, say } = parts;
  const sampling = trainSampling(config);
  if (!config.pool)
    return {
      ...inProcessPool(context, sampling),
      forget: async () => {},
      counts: async () => null,
      close: async () => {},
    };
  const address = redisAddress(config.pool);
  const redis = await openRedis(address, { withinMs: CONNECT_MS, say });
  redis.on('ready', () => parts.onRedis(true)).on('close', () => parts.onRedis(false));
  // Random, since no two trainers may say the same of what they proved: no stream of a run's.
  const trainer = randomUUID();
  try {
    const pool = await openRedisPool({
      ...config.pool,
      redis,
      name: addressName(address),
      prefix: address.prefix,
      run: config.run.name,
      facts: runFacts(config, data, model, baseWeights),
      resultsDir: resultsDir(config),
      maxAttempts: sampling.maxAttempts,
      endpoints: () => serversOf(replicas, trainer),
      weightsOf: weightsHash(folder.adapters),
      now: context.now,
      say,
    });
    replicas.onReturn(pool.announce);
    return {
      ...pool,
      async close() {
        await tellCounts(pool, say);
        await pool.close();
        redis.disconnect();
      },
    };
  } catch (error) {
    redis.disconnect();
    throw error;
  }
}

async function tellCounts(pool: RedisPool, say: (line: string) => void): Promise<void> {
  const { ok, failed, failedAttempts, reused, duplicates, forgotten } = await pool.counts();
  say(
    `pool: ${ok} rollouts, ${failed} failed; ${failedAttempts} attempts failed, ${reused} results of an earlier trainer, ` +
      `${duplicates ?? 'unknown'} late duplicates dropped, ${forgotten} groups forgotten by Redis and asked for again`,
  );
}

/** Those in rotation; a stay is named after the trainer that proved what is served, and counted. */
function serversOf(replicas: Pick<Replicas, 'state'>, trainer: string): Servers {
  const living = replicas.state().filter(({ out }) => out === null);
  return Object.fromEntries(living.map(({ name, exits }) => [name, `${trainer}-${exits}`]));
}

/** SHA-256 of an adapter's weights by its name; each file is read once, since names are never used again. */
function weightsHash(adapterRoot: string): (policy: { model: string }) => Promise<string> {
  const known = new Map<string, Promise<string>>();
  const read = (model: string): Promise<string> =>
    sha256OfFile(join(adapterRoot, model, 'adapter_model.safetensors'));
  return ({ model }) => {
    const found = known.get(model) ?? read(model);
    known.set(model, found);
    return found;
  };
}

/** Where the results of a run lie. */
export const resultsDir = (config: Config): string =>
  config.pool?.resultsDir === undefined
    ? join(runFolder(config).root, 'results')
    : resolve(config.pool.resultsDir, config.run.name);

/** Settings that say where things lie: their contents are compared instead. */
const PLACES = /^(data|model|endpoint)\./;

/** What trainer and worker must have alike: version, settings, data, base model, and how prompts are rendered. */
export function runFacts(
  config: Config,
  { corpus, precedents, train, validation }: Data,
  model: Model,
  baseWeights: string,
): Facts {
  const settings = [...sharedSettings(config)].filter(([path]) => !PLACES.test(path));
  const texts = [train[0]!.query, validation[0]!.query];
  const prompts = texts.map((content) => model.renderPrompt([{ role: 'user', content }]));
  return {
    'lexpo version': version(),
    'hash of data.corpus': corpus.hash,
    ...(precedents ? { 'hash of data.precedents': precedents.hash } : {}),
    'hash of data.train': shortHash(train),
    'hash of data.validation': shortHash(validation),
    'hash of the weights of model.path': baseWeights,
    'hash of prompts by the tokenizer and chat template of model.path': shortHash([
      prompts,
      model.config.eosTokenIds,
    ]),
    ...Object.fromEntries(settings),
  };
}
