/** Checks against the endpoint: what it can do, and an adapter all the way there and back. */
import { mkdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import { actingAdapter } from '../../engine/acting-adapter.ts';
import { readAdapter } from '../../engine/peft.ts';
import type { Adapter } from '../../engine/types.ts';
import { short } from '../../report/text.ts';
import { createLearner, proofTolerance } from '../../trainer/create-learner.ts';
import { createOptimizerState } from '../../trainer/optimizer.ts';
import { type PolicyService, startPolicyService } from '../../trainer/policy-service.ts';
import type { Model } from '../../trainer/prepare.ts';
import { publish } from '../../trainer/publish.ts';
import { loraSpec } from '../../trainer/start-run.ts';
import type { Passed } from './checklist.ts';

/** What the proof is asked on; any text will do. */
const PROBE = '房东不退押金怎么办？ What can a tenant do about the deposit?';
const probeIds = (model: Model): number[] =>
  model.renderPrompt([{ role: 'user', content: PROBE }]).slice(0, 48);

/** Starts the embedded server, or asks every configured one what it can do: all their problems at once. */
export async function checkEndpoint(
  config: Config,
  model: Model,
  adapterRoot: string,
): Promise<Passed<PolicyService>> {
  const notes: string[] = [];
  const service = await startPolicyService(config, model, {
    adapterRoot,
    probeIds: probeIds(model),
    tolerance: proofTolerance(config.learner),
    lora: loraSpec(config),
    // A run of this name that goes on meanwhile keeps its adapters.
    adopt: false,
    say: (line) => void notes.push(line),
  });
  const { kind } = config.endpoint;
  const detail = kind === 'embedded' ? `the embedded server serves ${service.baseModel}` : notes.join('; ');
  return { value: service, detail };
}

/**
 * Writes a random adapter of the run's shape, reads it back, has it loaded and proved everywhere as a step of
 * the run would, and takes it away again. `now` (milliseconds) makes its name one that was never used.
 */
export async function checkRoundTrip(
  config: Config,
  model: Model,
  { replicas }: PolicyService,
  adapterRoot: string,
  now: number,
): Promise<Passed<null>> {
  if (config.learner.kind === 'torch' && config.learner.nodes)
    return {
      value: null,
      detail: 'not tried',
      warnings: ['the processes of the other machines are started by hand, together with the run'],
    };
  // Far enough from the base model that no rounding hides it.
  const adapter = actingAdapter(model.config, loraSpec(config), 0.05, now, 'doctor');
  const learner = await createLearner(
    config.learner,
    {
      modelFolder: model.folder,
      spec: adapter.spec,
      optimizer: config.optimizer,
      threads: config.learner.threads,
      start: { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) },
    },
    () => {},
  );
  const runName = `${config.run.name}-doctor-${now.toString(36)}`;
  const folder = join(adapterRoot, `${runName}-v0`);
  try {
    const target = {
      replicas,
      adapterRoot,
      runName,
      baseModel: config.model.path,
      probeIds: probeIds(model),
    };
    await publish(target, learner, adapter, 0);
    const bytes = compare(adapter, readAdapter(folder), folder);
    const where = replicas.state().length === 1 ? 'the endpoint' : `${replicas.state().length} replicas`;
    return {
      value: null,
      detail: `${short(bytes)}B written, read back equal, loaded and proved on ${where}`,
    };
  } finally {
    await learner.close();
    // The name is never asked for again.
    await rm(folder, { recursive: true, force: true });
  }
}

/** Bytes of the tensors; UserError unless the two are equal bit by bit. */
function compare(written: Adapter, read: Adapter, folder: string): number {
  let bytes = 0;
  for (const [name, { data }] of written.tensors) {
    const other = read.tensors.get(name)?.data;
    if (
      !other ||
      !Buffer.from(data.buffer).equals(Buffer.from(other.buffer, other.byteOffset, other.byteLength))
    )
      throw new UserError(`${name} is not what was written`, folder, 'check the disk');
    bytes += data.byteLength;
  }
  return bytes;
}

/** Makes `folder` where it is absent; gives what takes away again what was made, as long as it is empty. */
export async function makeFolder(folder: string): Promise<() => Promise<void>> {
  const made = await mkdir(folder, { recursive: true });
  return async () => {
    if (made === undefined) return;
    for (let at = folder; at.startsWith(made); at = dirname(at))
      await rmdir(at).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOTEMPTY' && error.code !== 'ENOENT') throw error;
      });
  };
}
