/** The worker thread of a learner on our own engine: one request at a time, in the order they were sent. */
import { parentPort, workerData } from 'node:worker_threads';
import { sendable } from '../../base/worker.ts';
import type { Executor } from '../../engine/executor.ts';
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { loadTfjs } from '../../engine/tfjs/load.ts';
import { createTfjsExecutor } from '../../engine/tfjs/session.ts';
import { type CoreOptions, createCore } from './core.ts';
import type { Learner } from './learner.ts';

/** What runs the graph; see `learner.kind` of the configuration. */
export type EngineKind = 'onnx' | 'tfjs';
export interface WorkerData {
  kind: EngineKind;
  options: CoreOptions;
}
export type LearnerMethod = keyof Learner;
export interface LearnerRequest {
  id: number;
  method: LearnerMethod;
  args: unknown[];
}
export type LearnerReply = { id: number; value: unknown } | { id: number; error: unknown } | { note: string };

const port = parentPort!;
const { kind, options } = workerData as WorkerData;
const opening = executorOf(kind).then((executor) =>
  createCore(options, executor, (note) => port.postMessage({ note } satisfies LearnerReply)),
);
let queue: Promise<void> = Promise.resolve();

async function executorOf(kind: EngineKind): Promise<Executor> {
  return kind === 'onnx' ? onnxExecutor : createTfjsExecutor(await loadTfjs());
}

async function answer({ id, method, args }: LearnerRequest): Promise<void> {
  try {
    const core = await opening;
    const call = core[method] as (...args: unknown[]) => Promise<unknown>;
    port.postMessage({ id, value: await call(...args) } satisfies LearnerReply);
  } catch (error) {
    port.postMessage({ id, error: sendable(error) } satisfies LearnerReply);
  }
}

port.on('message', (request: LearnerRequest) => {
  queue = queue.then(() => answer(request));
});
// A failed opening is answered to every request; without one it must not end the thread unseen.
opening.catch(() => {});
