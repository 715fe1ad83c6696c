/**
 * Publishing with proof: no rollout by the wrong policy.
 *
 * Adapter names are immutable (`adapter-name.ts`). Write (temporary
 * folder, flush, rename), load, and prove: the endpoint lists the name with the right folder, and a fixed
 * prompt's log-probabilities equal the learner's, and so differ from the base model's by as much as the
 * learner's do. Only then does the policy version move. On any failure the old version stays.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../base/errors.ts';
import { loraScale, readAdapter, writeAdapter } from '../engine/peft.ts';
import type { Adapter } from '../engine/types.ts';
import type { Endpoint } from '../rollout/endpoint.ts';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import { adapterName } from './adapter-name.ts';
import type { Learner } from './learner/learner.ts';
import { packSamples } from './token-tree.ts';

export interface PublishTarget {
  endpoint: Endpoint;
  /** Folder of the run's adapters. */
  adapterRoot: string;
  runName: string;
  baseModel: string;
  /** Fixed token ids, at least 2: what the proof is asked on. */
  probeIds: number[];
  /** Default: PROOF_TOLERANCE. A learner with weights in half precision needs more. */
  tolerance?: number;
}

/** The largest |Δ log-probability| (nats) between endpoint and learner that still counts as the same policy. */
export const PROOF_TOLERANCE = 2e-3;

/**
 * Under a wider tolerance the base model may lie within it too: what is served may then not be nearer to the
 * base model than this share of its distance to the policy. Rounding alone is never that one-sided.
 */
const NEARER = 0.7;

export type PublishProblem = 'not-listed' | 'wrong-root' | 'differs-from-learner' | 'equals-base';

/** The endpoint does not serve what was published. */
export class PublishError extends UserError {
  override name = 'PublishError';
  constructor(
    readonly problem: PublishProblem,
    adapter: string,
    detail: string,
  ) {
    super(detail, `adapter ${adapter}`, 'the old version stays in use; look into the log of the endpoint');
  }
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

const distance = (a: readonly number[], b: readonly number[]): number =>
  Math.hypot(...a.map((value, i) => value - b[i]!));

/** NaN when `served` lacks a position or holds a value that is not a number: no gap is small enough then. */
const largestGap = (ours: readonly number[], served: readonly number[]): number =>
  ours.reduce((gap, value, i) => Math.max(gap, Math.abs(value - served[i]!)), 0);

/**
 * Writes, loads and proves `adapter` as version `version`.
 *
 * A folder left by a killed run is kept when it holds the same tensors (a resumed run on the CPU makes
 * them again); when it differs the version gets the next free suffix, `-v4-r2`, since the old name may be
 * cached somewhere.
 *
 * @throws PublishError when the endpoint does not serve it; RolloutFailure when it cannot load it; UserError,
 *   with nothing written, for a policy that gives no finite log-probabilities.
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
  const name = await writeVersion(target, adapter, version);
  const folder = resolve(target.adapterRoot, name);
  await target.endpoint.loadAdapter(name, folder);
  const card = (await target.endpoint.listModels()).find(({ id }) => id === name);
  if (!card) throw new PublishError('not-listed', name, 'loaded, but the endpoint does not list it');
  if (card.root !== null && resolve(card.root) !== folder)
    throw new PublishError(
      'wrong-root',
      name,
      `the endpoint serves it from ${card.root}, not from ${folder}`,
    );
  const served = await target.endpoint.promptLogprobs(name, target.probeIds);
  const tolerance = target.tolerance ?? PROOF_TOLERANCE;
  const gap = largestGap(ours, served);
  const equal = gap <= tolerance;
  if (!equal || tolerance > PROOF_TOLERANCE) {
    const base = await learnerLogprobs(learner, target.probeIds, 'base');
    // A wrong path or key prefix often means a 200 and the base model's answers: worth its own message.
    if (
      equal ? distance(base, served) < NEARER * distance(ours, served) : largestGap(base, served) <= tolerance
    )
      throw new PublishError('equals-base', name, 'the endpoint answers with the base model');
  }
  if (!equal) {
    throw new PublishError(
      'differs-from-learner',
      name,
      `its log-probabilities differ from the learner's by ${gap.toExponential(2)} nats (tolerance ${tolerance})`,
    );
  }
  return { version, model: name };
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
