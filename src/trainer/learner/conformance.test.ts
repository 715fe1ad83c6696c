/** The learners that need nothing but this package, held to the contract. */
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { createTfjsExecutor } from '../../engine/tfjs/session.ts';
import { tfjsCpu } from '../../engine/tfjs/test-support-cpu.ts';
import { createCore } from './core.ts';
import { testLearner } from './test-support-conformance.ts';

testLearner('onnx', {
  open: (options) => createCore(options, onnxExecutor),
  tolerance: { values: 2e-5, gradients: 2e-5, adapters: 2e-5 },
  exact: true,
});

testLearner('tfjs', {
  open: (options) => createCore(options, createTfjsExecutor(tfjsCpu)),
  tolerance: { values: 2e-5, gradients: 2e-5, adapters: 2e-5 },
  exact: true,
});
