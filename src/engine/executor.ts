/**
 * What runs a graph. The graph is built once and is the same for every executor; `onnx/` compiles it for
 * onnxruntime, `tfjs/` interprets it on the kernels of TensorFlow.js.
 */
import type { Node } from './graph.ts';
import type { SafetensorsEntry } from './safetensors.ts';

/** One tensor in or out of a session. */
export interface Value {
  shape: readonly number[];
  data: Float32Array | Int32Array;
}

export interface Session {
  /** Runs the graph; results in the order of the outputs map. Feeds the graph does not read are left out. */
  run(feeds: ReadonlyMap<string, Value>): Promise<Map<string, Value>>;
  release(): Promise<void>;
}

export interface ExecutorOptions {
  /** Frozen weights by name. */
  weights: ReadonlyMap<string, SafetensorsEntry>;
  /** Threads of one operation, ≥ 1, where the executor lets them be chosen. */
  threads: number;
}

/** Opens a session that computes `outputs`. UserError for weights that it cannot read. */
export type Executor = (outputs: ReadonlyMap<string, Node>, options: ExecutorOptions) => Promise<Session>;
