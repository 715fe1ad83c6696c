/** For worker.test.ts: answers with a number that it computes through an import. */
import { parentPort, workerData } from 'node:worker_threads';
import { stream } from './random.ts';

parentPort?.postMessage(stream((workerData as { seed: number }).seed, 'echo').next());
