/**
 * The inside of every learner on our own engine: two sessions over one model folder (with and without
 * gradients), the adapter, its frozen reference and the optimiser's moments. Such learners differ in their
 * executor alone. Runs in a worker thread, since a session's `run` holds the event loop.
 */
import type { Executor } from '../../engine/executor.ts';
import { loraScale } from '../../engine/peft.ts';
import { addTensors, copyAdapter } from '../../engine/tensors.ts';
import { FAST, type MemoryPlan } from '../../engine/training-graph.ts';
import { createTrainingSession } from '../../engine/training-session.ts';
import type { TensorMap } from '../../engine/types.ts';
import { adamwStep, createOptimizerState } from '../optimizer.ts';
import { copyState, type Learner, type LearnerOptions, type Weights } from './learner.ts';
import { openWithinMemory, tokenBudget } from './within-memory.ts';

export interface CoreOptions extends LearnerOptions {
  /** Default: fast, nothing recomputed, all rows at once. */
  memory?: MemoryPlan;
}

/**
 * Opens both sessions, so that a model that cannot be run is found here. `say` gets the line that tells of a
 * halved token budget (within-memory.ts).
 */
export async function createCore(
  options: CoreOptions,
  executor: Executor,
  say: (line: string) => void = () => {},
): Promise<Learner> {
  const { modelFolder, spec, threads, memory = FAST } = options;
  const budget = tokenBudget(say);
  const shared = { folder: modelFolder, lora: spec, mode: 'lora', threads, executor } as const;
  const open = (gradients: boolean) =>
    openWithinMemory(
      // Without gradients nothing is kept that could be computed again.
      () =>
        createTrainingSession({
          ...shared,
          gradients,
          memory: { ...memory, recompute: memory.recompute && gradients },
        }),
      budget,
    );
  const backward = await open(true);
  const forward = await open(false);
  const state = copyState(options.start);
  const scale = loraScale(spec);
  let gathered: TensorMap | null = null;

  const parametersOf = (weights: Weights): { tensors: TensorMap; scale: number } => {
    if (weights === 'policy') return { tensors: state.adapter.tensors, scale };
    if (weights === 'reference' && state.reference) return { tensors: state.reference.tensors, scale };
    return { tensors: state.adapter.tensors, scale: 0 };
  };

  return {
    async rowValues(batch, weights, temperature) {
      const parameters = parametersOf(weights);
      return (await forward.run(batch, parameters.tensors, parameters.scale, { temperature })).rows;
    },
    async accumulate(batch, coef, entropyCoef, temperature) {
      const result = await backward.run(batch, state.adapter.tensors, scale, {
        coef,
        entropyCoef,
        temperature,
      });
      const gradients = result.gradients!;
      if (gathered === null) gathered = gradients;
      else addTensors(gathered, gradients);
      return result.rows;
    },
    async update(learningRate) {
      if (gathered === null) throw new Error('update without a gradient: nothing was accumulated');
      const gradients = gathered;
      gathered = null;
      return adamwStep(state.adapter.tensors, gradients, state.optimizer, learningRate, options.optimizer);
    },
    async freezeReference() {
      state.reference = copyAdapter(state.adapter);
      state.optimizer = createOptimizerState(state.adapter.tensors);
    },
    async state() {
      return copyState(state);
    },
    async close() {
      await backward.release();
      await forward.release();
    },
  };
}
