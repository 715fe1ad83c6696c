/**
 * The engine thread: holds the model, the adapters and the running sequences. The runtime blocks its event
 * loop while it computes; the HTTP thread stays free. A fault here ends the thread, and the server says so.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { createAdapterSlots } from './adapter-slots.ts';
import type { EngineModule } from './engine-module.ts';
import type { FromWorker, ToWorker, WorkerInit } from './protocol.ts';
import { createScheduler } from './scheduler.ts';

const port = parentPort!;
const { engineModule, modelFolder, threads, limits } = workerData as WorkerInit;
const send = (message: FromWorker): void => port.postMessage(message);

const { openModel } = (await import(engineModule)) as EngineModule;
const slots = await createAdapterSlots(await openModel(modelFolder, threads), limits.maxLoraRank, (uid) =>
  scheduler.forgetAdapter(uid),
);
const scheduler = createScheduler(slots.get(0)!.session, limits, slots);

let awake = false;
let closing = false;

/** Ticks while there is work; between ticks messages come in: new requests, cancellations, loads. */
async function work(): Promise<void> {
  if (awake) return;
  awake = true;
  while (scheduler.busy() && !closing) {
    await scheduler.tick();
    flush();
    await nextTurn();
  }
  flush();
  awake = false;
  if (closing) port.close();
}

function flush(): void {
  const results = scheduler.takeResults();
  if (results.length > 0) send({ kind: 'results', results });
}

async function handle(message: ToWorker): Promise<void> {
  switch (message.kind) {
    case 'generate':
      scheduler.submit(message);
      return work();
    case 'cancel':
      scheduler.cancel(message.id);
      return;
    case 'load':
      send({ kind: 'loaded', id: message.id, outcome: await slots.load(message.name, message.folder) });
      return;
    case 'unload':
      slots.retire(message.adapter);
      return;
    case 'stats':
      send({ kind: 'stats', id: message.id, stats: { ...scheduler.stats(), adapters: slots.count() } });
      return;
    case 'close':
      closing = true;
      // Without its port the thread has nothing left to wait for, and ends.
      if (!awake) port.close();
      return;
  }
}

// A rejection is unhandled on purpose: it ends the thread with its stack.
port.on('message', (message: ToWorker) => void handle(message));
send({ kind: 'ready' });
