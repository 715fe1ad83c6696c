/** From the section `endpoint` to replicas: our own server within this process, or servers that are there. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../base/errors.ts';
import { shortHash } from '../base/hash.ts';
import type { Config } from '../config/schema.ts';
import { actingAdapter } from '../engine/acting-adapter.ts';
import { writeAdapter } from '../engine/peft.ts';
import type { LoraSpec } from '../engine/types.ts';
import { checkReplicas, type Needs } from '../rollout/capabilities.ts';
import { createEndpoint } from '../rollout/endpoint.ts';
import { createReplicas, type ReplicaOptions, type Replicas, systemTimer } from '../rollout/replicas.ts';
import { startServer } from '../serve/server.ts';
import { HALF_TOLERANCE, proofTolerance } from './create-learner.ts';
import type { Model } from './prepare.ts';
import type { ServingSettings } from './retrain/serving.ts';

export interface PolicyServiceOptions {
  /** Folder that adapters lie in. */
  adapterRoot: string;
  /** Fixed token ids, at least 2. */
  probeIds: number[];
  /** Largest |Δ log-probability| (nats) of a proof, where the section says none. */
  tolerance: number;
  /** The shape of the adapters that will be served; null: none will, or one that is there already. */
  lora: LoraSpec | null;
  /** Adapters found loaded on a server are this run's own. */
  adopt: boolean;
  say(line: string): void;
}

export interface PolicyService {
  replicas: Replicas;
  /** The id under which the base model is served. */
  baseModel: string;
  close(): Promise<void>;
}

type VllmSettings = Extract<Config['endpoint'], { kind: 'vllm' }>;

/**
 * Starts the embedded server over the model (called `config.model.path` there), or checks that the configured
 * servers can do what the run needs.
 *
 * @throws UserError with every problem of every server.
 */
export async function startPolicyService(
  config: Config,
  model: Model,
  options: PolicyServiceOptions,
): Promise<PolicyService> {
  const settings = config.endpoint;
  const shared = {
    deadlineMs: config.rollout.deadlineMs,
    maxConcurrent: config.rollout.concurrency,
    adopt: options.adopt,
    staleness: config.train.maxStaleness,
    timer: systemTimer,
    say: options.say,
  };
  if (settings.kind === 'vllm') return vllmService(config, settings, model, options, shared);
  const server = await startServer({
    modelFolder: model.folder,
    adapterRoot: options.adapterRoot,
    threads: settings.threads,
    servedModelName: config.model.path,
  });
  const { deadlineMs, maxConcurrent } = shared;
  const endpoint = createEndpoint({ baseUrl: server.url, deadlineMs, maxConcurrent });
  const replicas = createReplicas({
    ...shared,
    replicas: [{ name: server.url, endpoint, adapterRoot: null }],
    onPartialFailure: 'keep-old',
    tolerance: options.tolerance,
    healthEveryMs: 5_000,
  });
  return {
    replicas,
    baseModel: config.model.path,
    async close() {
      await replicas.close();
      await server.close();
    },
  };
}

async function vllmService(
  config: Config,
  settings: VllmSettings,
  model: Model,
  options: PolicyServiceOptions,
  shared: Pick<
    Parameters<typeof createReplicas>[0],
    'deadlineMs' | 'maxConcurrent' | 'adopt' | 'staleness' | 'timer' | 'say'
  >,
): Promise<PolicyService> {
  const hosts = replicasOf(config, settings, model);
  // Servers are half precision as a rule, whatever the learner is.
  const tolerance = settings.proofTolerance ?? Math.max(options.tolerance, HALF_TOLERANCE);
  const probe = options.lora && (await writeProbe(config, model, options.lora, options.adapterRoot));
  const needs: Needs = {
    model: settings.model,
    maxCallTokens: config.learner.maxTreeTokens,
    logprobs: settings.logprobs,
    temperature: config.rollout.temperature,
    tokenizer: model.tokenizer,
    probeIds: options.probeIds,
    tolerance,
    probe,
  };
  try {
    const { baseModel, notes } = await checkReplicas(hosts, needs, shared.timer);
    for (const note of notes) shared.say(note);
    const replicas = createReplicas({
      ...shared,
      replicas: hosts,
      onPartialFailure: settings.onPartialFailure,
      tolerance,
      healthEveryMs: settings.healthEveryMs,
    });
    return { replicas, baseModel, close: () => replicas.close() };
  } finally {
    // It was unloaded everywhere, and its name is never asked for again.
    if (probe) await rm(probe.adapter.folder, { recursive: true, force: true });
  }
}

/** A client for each configured server. UserError when the variable of the key is not set. */
function replicasOf(
  config: Config,
  settings: VllmSettings,
  model: Pick<Model, 'tokenizer'>,
): ReplicaOptions[] {
  const apiKey = endpointKey(config);
  return settings.replicas.map(({ url, adapterRoot }) => ({
    name: url,
    adapterRoot: adapterRoot ?? null,
    endpoint: createEndpoint({
      baseUrl: url,
      apiKey,
      deadlineMs: config.rollout.deadlineMs,
      loadDeadlineMs: settings.loadDeadlineMs,
      maxConcurrent: config.rollout.concurrency,
      decode: (ids) => model.tokenizer.decode(ids, { skipSpecial: true }),
    }),
  }));
}

/**
 * The key of the configured servers; undefined where they want none. UserError when its variable is not set, or
 * holds what no header can carry.
 */
export const endpointKey = ({ endpoint }: Pick<Config, 'endpoint'>): string | undefined =>
  serverKey(endpoint.kind === 'vllm' ? endpoint.apiKeyEnv : undefined);

/** The key in the environment variable `name`; undefined for no name. UserError as `endpointKey`. */
export function serverKey(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  const key = process.env[name];
  if (!key)
    throw new UserError('is not set', `environment variable ${name}`, 'set it to the key of the servers');
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new UserError(
      'holds a blank, a line break or a character beyond ASCII, which no key of a server has',
      `environment variable ${name}`,
      'set it to the key alone (a file with Windows line ends leaves one at its end)',
    );
  return key;
}

/** The servers that answer users of the champion, as `retrain.serve` names them. UserError as `endpointKey`. */
export function championServers(
  { rollout, learner }: Pick<Config, 'rollout' | 'learner'>,
  { replicas, apiKeyEnv, proofTolerance: tolerance, loadDeadlineMs }: ServedBy,
): ServingSettings {
  const apiKey = serverKey(apiKeyEnv);
  const { deadlineMs } = rollout;
  return {
    servers: replicas.map(({ url, adapterRoot }) => ({
      name: url,
      adapterRoot: adapterRoot ?? null,
      endpoint: createEndpoint({ baseUrl: url, apiKey, deadlineMs, loadDeadlineMs, maxConcurrent: 8 }),
    })),
    tolerance: tolerance ?? Math.max(proofTolerance(learner), HALF_TOLERANCE),
  };
}

type ServedBy = NonNullable<NonNullable<Config['retrain']>['serve']>;

/**
 * Writes an adapter of the run's shape: a server that applies it answers far from its base model. Its name says
 * what is in it: names are never used for other weights.
 */
async function writeProbe(
  config: Config,
  model: Model,
  spec: LoraSpec,
  adapterRoot: string,
): Promise<NonNullable<Needs['probe']>> {
  const adapter = actingAdapter(model.config, spec, 0.05, 0, 'probe-adapter');
  const shape = shortHash([spec, [...adapter.tensors].map(([name, tensor]) => [name, tensor.shape])]);
  const name = `${config.run.name}-probe-${shape.slice(0, 8)}`;
  const folder = join(adapterRoot, name);
  await rm(folder, { recursive: true, force: true });
  await writeAdapter(folder, adapter, { baseModel: config.model.path });
  return { adapter: { version: 0, name, folder, proof: null }, rank: spec.r };
}
