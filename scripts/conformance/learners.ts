/** The learners other than `onnx`, to be compared with TRL: TensorFlow.js on its CPU backend, torch with one and two ranks. */
import { createTfjsExecutor } from '../../src/engine/tfjs/session.ts';
import { tfjsCpu } from '../../src/engine/tfjs/test-support-cpu.ts';
import { createCore } from '../../src/trainer/learner/core.ts';
import { torchOnCpu } from '../../src/trainer/learner/test-support-python.ts';
import { createTorchLearner } from '../../src/trainer/learner/torch-learner.ts';
import type { OpenLearner } from './losses.ts';

export function otherLearners(python: string): Map<string, OpenLearner> {
  const torch =
    (processes: number): OpenLearner =>
    (options) =>
      createTorchLearner(options, torchOnCpu(python, { processes, startDeadlineMs: 300_000 }));
  return new Map<string, OpenLearner>([
    ['tfjs', (options) => createCore(options, createTfjsExecutor(tfjsCpu))],
    ['torch, one rank', torch(1)],
    ['torch, two ranks', torch(2)],
  ]);
}
