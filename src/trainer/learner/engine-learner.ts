/** The learners on our own engine as the loop sees them: their sessions live in a worker thread. */
import { revived, startWorker } from '../../base/worker.ts';
import type { CoreOptions } from './core.ts';
import type { LearnerMethod, LearnerReply, LearnerRequest, WorkerData } from './engine-worker.ts';
import type { Learner } from './learner.ts';

interface Pending {
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Say = (line: string) => void;

/**
 * The learner on onnxruntime, ready for its first pass. `say` gets the lines that a user should read.
 *
 * @throws UserError for a model folder that cannot be read. A worker that dies fails every call under way
 *   and every later one.
 */
export const createOnnxLearner = (options: CoreOptions, say: Say = () => {}): Promise<Learner> =>
  startLearner({ kind: 'onnx', options }, say);

/**
 * The learner on TensorFlow.js and a GPU; otherwise as `createOnnxLearner`, except that `threads` has no effect.
 *
 * @throws UserError also where `@tensorflow/tfjs-node-gpu` is not installed, does not work or finds no GPU.
 */
export const createTfjsLearner = (options: CoreOptions, say: Say = () => {}): Promise<Learner> =>
  startLearner({ kind: 'tfjs', options }, say);

async function startLearner(workerData: WorkerData, say: Say): Promise<Learner> {
  const worker = startWorker(new URL('./engine-worker.ts', import.meta.url), import.meta.url, { workerData });
  const pending = new Map<number, Pending>();
  let nextId = 0;
  let dead: Error | null = null;

  const fail = (error: Error): void => {
    dead ??= error;
    for (const { reject } of pending.values()) reject(dead);
    pending.clear();
  };
  worker.on('message', (reply: LearnerReply) => {
    if ('note' in reply) return say(reply.note);
    const waiting = pending.get(reply.id);
    pending.delete(reply.id);
    if ('error' in reply) waiting?.reject(revived(reply.error));
    else waiting?.resolve(reply.value as never);
  });
  worker.on('error', (error) => fail(error as Error));
  worker.on('exit', (code) => fail(new Error(`the learner's thread ended with code ${code}`)));

  const call = <T>(method: LearnerMethod, ...args: unknown[]): Promise<T> =>
    dead
      ? Promise.reject(dead)
      : new Promise<T>((resolve, reject) => {
          const id = nextId++;
          pending.set(id, { resolve, reject });
          worker.postMessage({ id, method, args } satisfies LearnerRequest);
        });

  const learner: Learner = {
    rowValues: (...args) => call('rowValues', ...args),
    accumulate: (...args) => call('accumulate', ...args),
    update: (learningRate) => call('update', learningRate),
    freezeReference: () => call('freezeReference'),
    state: () => call('state'),
    async close() {
      if (!dead) await call('close');
      await worker.terminate();
    },
  };
  try {
    await learner.state();
  } catch (error) {
    await worker.terminate();
    throw error;
  }
  return learner;
}
