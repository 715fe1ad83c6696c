/** The section `learner`: what its `kind` is decides its other keys. */
import { z } from 'zod';
import { count, filled, threads } from './fields.ts';

const everyLearner = {
  /** Padded positions of one forward-backward pass; of each process, where there are several. */
  tokensPerPass: count.default(8192),
  /** Positions of one tree; longer samples are refused. */
  maxTreeTokens: count.default(1024),
  /** Threads of one process. */
  threads,
};

/** For our own graph: less memory for more time. */
const memory = z
  .strictObject({
    /** Computes each layer again in the backward pass: about a third more work, far less memory. */
    recompute: z.boolean().default(false),
    /** Rows go through the vocabulary projection in so many parts. */
    rowChunks: count.max(1024).default(1),
  })
  .prefault({});

/** Milliseconds; a timer holds no more than 2³¹. */
const deadline = count.max(86_400_000);

/** What computes gradients: our own graph (on onnxruntime, or on TensorFlow.js), or PyTorch under torchrun. */
export const learner = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('onnx').default('onnx'), ...everyLearner, memory }),
  z.strictObject({ kind: z.literal('tfjs'), ...everyLearner, memory }),
  z.strictObject({
    kind: z.literal('torch'),
    ...everyLearner,
    /** A Python with torch, transformers and safetensors: a name on the PATH, or a file. */
    python: filled.default('python3'),
    /** Processes on each machine; with GPUs each has its own. */
    processes: count.max(64).default(1),
    /** `auto`: GPUs where PyTorch sees any. */
    device: z.enum(['auto', 'cpu', 'cuda']).default('auto'),
    /** Of the base model's weights. The adapter, the loss and the optimiser are always float32. */
    dtype: z.enum(['float32', 'bfloat16']).default('float32'),
    /** Computes each layer again in the backward pass: about a third more work, far less memory. */
    gradientCheckpointing: z.boolean().default(false),
    /** Several machines, this one included; the others are started by hand, as `--dry-run` says. */
    nodes: z
      .strictObject({
        count: count.min(2).max(1024),
        /** Name or address by which the others reach this machine, and a free port of it. */
        address: filled,
        port: count.max(65_535).default(29_500),
      })
      .optional(),
    /** Until the model is loaded everywhere; and for one pass, or one update. */
    startDeadlineMs: deadline.default(600_000),
    callDeadlineMs: deadline.default(600_000),
  }),
]);
