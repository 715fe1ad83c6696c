/**
 * What to do when memory runs out in a pass: halve the token budget once, say so, and go on. A pass is then
 * run as several, whose gradients add up to the same (to rounding). A second failure ends the training.
 */
import { UserError } from '../../base/errors.ts';
import { isOutOfMemory } from '../../engine/out-of-memory.ts';
import { splitTrees } from '../../engine/split-trees.ts';
import { addTensors } from '../../engine/tensors.ts';
import type { TrainingSession } from '../../engine/training-session.ts';
import type { TensorMap } from '../../engine/types.ts';

/** Shared by the sessions of one learner. */
export interface TokenBudget {
  /** Positions of a pass, at most; null as long as memory has sufficed. */
  limit: number | null;
  /** Told once, when the budget is halved. */
  say: (line: string) => void;
}

export const tokenBudget = (say: (line: string) => void): TokenBudget => ({ limit: null, say });

/** What a user can do about it, where the program has done what it can. */
const notEnough = (positions: number): UserError =>
  new UserError(
    `memory ran out in a pass of ${positions} tokens`,
    'learner',
    'set learner.memory.recompute to true, raise learner.memory.rowChunks, or lower learner.tokensPerPass and ' +
      'learner.maxTreeTokens (--dry-run says what they need); all but the last may change when a run goes on with --resume',
  );

/**
 * A session that stays within the budget. `open` is called again after a failure: the failed session's arena
 * holds all that there was, and nothing else could grow.
 *
 * @throws UserError when memory does not suffice to open it; `run` throws one when it runs out again, and for
 *   a single tree, which cannot be cut.
 */
export async function openWithinMemory(
  open: () => Promise<TrainingSession>,
  budget: TokenBudget,
): Promise<TrainingSession> {
  const opened = (): Promise<TrainingSession> =>
    open().catch((error: unknown) => {
      if (!isOutOfMemory(error)) throw error;
      throw new UserError(
        'memory ran out while the model was opened',
        'learner',
        'take a smaller model, or a machine with more memory',
      );
    });
  let session = await opened();
  return {
    parameters: session.parameters,
    async run(batch, params, scale, options) {
      const positions = batch.trees * batch.length;
      if (budget.limit === null) {
        try {
          return await session.run(batch, params, scale, options);
        } catch (error) {
          if (!isOutOfMemory(error)) throw error;
          if (batch.trees === 1) throw notEnough(positions);
          budget.limit = Math.max(batch.length, Math.floor(positions / 2));
          budget.say(
            `memory ran out in a pass of ${positions} tokens: from here on passes have at most ${budget.limit}, with the same gradient`,
          );
          await session.release();
          session = await opened();
        }
      }
      try {
        return await runInParts(session, batch, params, scale, options, budget.limit);
      } catch (error) {
        throw isOutOfMemory(error) ? notEnough(Math.min(positions, budget.limit)) : error;
      }
    },
    release: () => session.release(),
  };
}

type Run = TrainingSession['run'];

async function runInParts(
  session: TrainingSession,
  batch: Parameters<Run>[0],
  params: TensorMap,
  scale: number,
  options: Parameters<Run>[3],
  limit: number,
): ReturnType<Run> {
  if (batch.trees * batch.length <= limit) return session.run(batch, params, scale, options);
  const count = batch.targetId.length;
  const rows = { logprobs: new Float32Array(count), entropies: new Float32Array(count) };
  let gradients: TensorMap | undefined;
  for (const part of splitTrees(batch, limit)) {
    const pick = (values: Float32Array | undefined) =>
      values && Float32Array.from(part.rows, (row) => values[row]!);
    const { coef, entropyCoef, ...rest } = options ?? {};
    const result = await session.run(part.batch, params, scale, {
      ...rest,
      ...(coef ? { coef: pick(coef)! } : {}),
      ...(entropyCoef ? { entropyCoef: pick(entropyCoef)! } : {}),
    });
    for (const [i, row] of part.rows.entries()) {
      rows.logprobs[row] = result.rows.logprobs[i]!;
      rows.entropies[row] = result.rows.entropies[i]!;
    }
    if (gradients === undefined) gradients = result.gradients;
    else addTensors(gradients, result.gradients!);
  }
  return gradients ? { rows, gradients } : { rows };
}
