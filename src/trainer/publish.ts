/**
 * Publishing with proof: no rollout by the wrong policy.
 *
 * Adapter names are immutable (`adapter-name.ts`). Write (temporary folder, flush, rename); load on every
 * replica; prove on every replica that it lists the name with the right folder, and that a fixed prompt's
 * log-probabilities equal the learner's, and so differ from the base model's by as much as the learner's do.
 * Only then does the policy version move. On any failure the old version stays.
 *
 * What the learner says about the fixed prompt stays beside the tensors (`proof.json`), so that an older
 * version can be proved again when the learner has moved on.
 */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { readJsonFile } from '../base/read-json.ts';
import { loraScale, readAdapter, writeAdapter } from '../engine/peft.ts';
import type { Adapter } from '../engine/types.ts';
import type { Proof, ServedAdapter } from '../rollout/proof.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import { adapterName, parseAdapterName } from './adapter-name.ts';
import type { Learner } from './learner/learner.ts';
import { packSamples } from './token-tree.ts';

export { PROOF_TOLERANCE, PublishError, type PublishProblem } from '../rollout/proof.ts';

export interface PublishTarget {
  replicas: Pick<Replicas, 'install'>;
  /** Folder of the run's adapters. */
  adapterRoot: string;
  runName: string;
  /** What the adapter's files name as their base model. */
  baseModel: string;
  /** Fixed token ids, at least 2: what the proof is asked on. */
  probeIds: number[];
}

/** Natural log-probabilities of `ids[1..]` by the learner. */
async function learnerLogprobs(
  learner: Learner,
  ids: number[],
  weights: 'policy' | 'base',
): Promise<number[]> {
  const limits = { maxTreeTokens: ids.length, tokensPerPass: Math.max(64, ids.length * 2) };
  const { passes } = packSamples([{ promptIds: ids.slice(0, 1), outputIds: ids.slice(1) }], limits);
  const pass = passes[0]!;
  const { logprobs } = await learner.rowValues(pass.batch, weights, 1);
  return ids.slice(1).map((_, t) => logprobs[pass.row[pass.token.indexOf(t)]!]!);
}

/**
 * Writes, loads and proves `adapter` as version `version`.
 *
 * A folder left by a killed run is kept when it holds the same tensors (a resumed run on the CPU makes
 * them again); when it differs the version gets the next free suffix, `-v4-r2`, since the old name may be
 * cached somewhere.
 *
 * @throws PublishError when a replica does not serve it; RolloutFailure when the only one cannot load it;
 *   UserError, with nothing written, for a policy that gives no finite log-probabilities.
 */
export async function publish(
  target: PublishTarget,
  learner: Learner,
  adapter: Adapter,
  version: number,
): Promise<PolicyVersion> {
  const ours = await learnerLogprobs(learner, target.probeIds, 'policy');
  if (!ours.every(Number.isFinite))
    throw new UserError(
      'the policy has log-probabilities that are not finite: its last update was too large',
      adapterName(target.runName, { version, attempt: 1 }),
      'lower the learning rate (optimizer.learningRate, or sft.learningRate in the warm start)',
    );
  const base = await learnerLogprobs(learner, target.probeIds, 'base');
  const name = await writeVersion(target, adapter, version);
  const folder = resolve(target.adapterRoot, name);
  const proof: Proof = { ids: target.probeIds, policy: ours, base };
  await writeFileAtomic(join(folder, PROOF_FILE), `${JSON.stringify(proof)}\n`);
  await target.replicas.install({ version, name, folder, proof });
  return { version, model: name };
}

const PROOF_FILE = 'proof.json';
const logprobs = z.array(z.number());
const proofSchema = z.strictObject({
  ids: z.array(z.number().int().min(0)),
  policy: logprobs,
  base: logprobs,
});

/** The adapter in `folder` as it was published, with its proof; without one where a folder has none. */
export function publishedAdapter(folder: string): ServedAdapter {
  const name = basename(folder);
  const file = join(folder, PROOF_FILE);
  const proof = existsSync(file)
    ? readJsonFile(file, proofSchema, 'Remove the file: the adapter is then served without a proof.')
    : null;
  return { version: parseAdapterName(name)?.version ?? 0, name, folder: resolve(folder), proof };
}

/**
 * Serves versions that this run has published before, oldest first, each proved by what stands beside it.
 *
 * @throws UserError where the folder of one, or its proof, is gone; else as `publish`.
 */
export async function publishAgain(target: PublishTarget, policies: readonly PolicyVersion[]): Promise<void> {
  for (const model of new Set(policies.map((policy) => policy.model))) {
    const folder = join(target.adapterRoot, model);
    const adapter = existsSync(folder) ? publishedAdapter(folder) : null;
    if (!adapter?.proof)
      throw new UserError(
        'is not there whole: steps to come are sampled by this version',
        folder,
        'put the folder back as it was, or start the run anew with --fresh',
      );
    await target.replicas.install(adapter);
  }
}

async function writeVersion(target: PublishTarget, adapter: Adapter, version: number): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const name = adapterName(target.runName, { version, attempt });
    const folder = join(target.adapterRoot, name);
    if (!existsSync(folder)) {
      await writeAdapter(folder, adapter, { baseModel: target.baseModel });
      return name;
    }
    if (holds(folder, adapter)) return name;
  }
}

/** Whether the folder holds exactly these tensors at this scale; one that cannot be read does not. */
function holds(folder: string, adapter: Adapter): boolean {
  let found: Adapter;
  try {
    found = readAdapter(folder);
  } catch (error) {
    if (error instanceof UserError) return false;
    throw error;
  }
  const { spec, tensors } = found;
  return (
    loraScale(spec) === loraScale(adapter.spec) &&
    tensors.size === adapter.tensors.size &&
    [...adapter.tensors].every(([name, { data }]) => {
      const other = tensors.get(name)?.data;
      return (
        other !== undefined && other.length === data.length && other.every((x, i) => Object.is(x, data[i]))
      );
    })
  );
}
