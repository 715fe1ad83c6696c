/** The learners that need nothing but this package, held to the contract. */
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { createCore } from './core.ts';
import { testLearner } from './test-support-conformance.ts';

testLearner('onnx', {
  open: (options) => createCore(options, onnxExecutor),
  tolerance: { values: 2e-5, gradients: 2e-5, adapters: 2e-5 },
  exact: true,
});
