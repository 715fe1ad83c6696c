/**
 * The proof that a server serves an adapter: it lists the name with the right folder, and a fixed prompt's
 * log-probabilities are the learner's. A wrong path or key prefix often means a 200 and the base model's
 * answers, a cache the answers of an older version: both may lie within a tolerance that half precision needs,
 * so what is served may not be nearer to one of them than to the learner either.
 */
import { UserError } from '../base/errors.ts';
import { shortHash } from '../base/hash.ts';
import type { Endpoint } from './endpoint.ts';
import { sameIds } from './endpoint-answer.ts';

/** The largest |Δ log-probability| (nats) between endpoint and learner that still counts as the same policy. */
export const PROOF_TOLERANCE = 2e-3;

/**
 * What is served may not be nearer to a rival (base model, older version) than this share of its distance to
 * the policy. Rounding alone is never that one-sided; where rival and policy are less apart than rounding
 * moves them, nothing can tell them apart and nothing needs to.
 */
const NEARER = 0.5;

/** What the learner says about a fixed prompt: natural log-probabilities of `ids[1..]`, each `[ids.length − 1]`. */
export interface Proof {
  ids: number[];
  policy: number[];
  base: number[];
}

/** An adapter that was published, or is about to be. */
export interface ServedAdapter {
  version: number;
  /** The name that servers know it by: immutable. */
  name: string;
  /** Its folder here, absolute. */
  folder: string;
  /** Null for an adapter that no learner has spoken for: only the list is looked at then. */
  proof: Proof | null;
}

export type PublishProblem =
  | 'not-listed'
  | 'wrong-root'
  | 'differs-from-learner'
  | 'equals-base'
  | 'equals-older'
  | 'partial-failure';

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

const distance = (a: readonly number[], b: readonly number[]): number =>
  Math.hypot(...a.map((value, i) => value - b[i]!));

/** Largest |Δ|; NaN, which is below no limit, when `served` lacks a position or holds a value that is none. */
export const largestGap = (ours: readonly number[], served: readonly number[]): number =>
  ours.reduce((gap, value, i) => Math.max(gap, Math.abs(value - served[i]!)), 0);

export interface ProofSettings {
  /** Largest |Δ log-probability|, nats. */
  tolerance: number;
  /** Versions that are served beside this one. */
  older: readonly ServedAdapter[];
}

/**
 * Proves that `endpoint` serves `adapter` from `path` (as the server sees it). Asks for its list and for the
 * fixed prompt.
 *
 * @throws PublishError when it does not; RolloutFailure when it gives no answer.
 */
export async function prove(
  endpoint: Pick<Endpoint, 'listModels' | 'promptLogprobs'>,
  adapter: ServedAdapter,
  path: string,
  settings: ProofSettings,
): Promise<void> {
  const { name, proof } = adapter;
  const card = (await endpoint.listModels()).find(({ id }) => id === name);
  if (!card) throw new PublishError('not-listed', name, 'loaded, but the endpoint does not list it');
  if (!sameRoot(card.root, path))
    throw new PublishError('wrong-root', name, `the endpoint serves it from ${card.root}, not from ${path}`);
  if (proof === null) return;
  judge(adapter, proof, await endpoint.promptLogprobs(name, proof.ids), settings);
}

/** Whether a listed folder is the one that was loaded from; a server that tells none is believed. */
export function sameRoot(root: string | null, path: string): boolean {
  const trimmed = (text: string): string => text.replace(/(.)\/+$/, '$1');
  return root === null || trimmed(root) === trimmed(path);
}

/** Throws PublishError unless `served` is the policy of the proof, and no rival of it. */
export function judge(
  { name }: Pick<ServedAdapter, 'name'>,
  proof: Proof,
  served: readonly number[],
  { tolerance, older }: Pick<ProofSettings, 'tolerance' | 'older'>,
): void {
  const ours = proof.policy;
  const gap = largestGap(ours, served);
  const equal = gap <= tolerance;
  const own = distance(ours, served);
  const isRival = (rival: readonly number[]): boolean =>
    equal ? distance(rival, served) < NEARER * own : largestGap(rival, served) <= tolerance;
  if (isRival(proof.base))
    throw new PublishError('equals-base', name, 'the endpoint answers with the base model');
  const stale = older.find(
    (other) =>
      other.name !== name &&
      other.proof !== null &&
      sameIds(other.proof.ids, proof.ids) &&
      isRival(other.proof.policy),
  );
  if (stale)
    throw new PublishError('equals-older', name, `the endpoint answers with an older version, ${stale.name}`);
  if (!equal)
    throw new PublishError(
      'differs-from-learner',
      name,
      `its log-probabilities differ from the learner's by ${gap.toExponential(2)} nats (tolerance ${tolerance})`,
    );
}

/**
 * Salt of a server's prompt cache, by the adapter's weights: a run that was started afresh has the names of
 * the run before it, and the servers may still hold keys and values under them.
 */
export const saltOf = ({ version, proof }: ServedAdapter): string | null =>
  proof && `v${version}-${shortHash(proof)}`;
