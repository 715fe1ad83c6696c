/** The adapters in the worker's memory: counted by use, so that an unloaded one ends its requests first. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import type { DecodeSession } from '../engine/decode-session.ts';
import type { Adapter, LoraSpec, TensorMap } from '../engine/types.ts';
import type { EngineModel } from './engine-module.ts';
import type { AdapterUid, LoadOutcome } from './protocol.ts';

export interface AdapterSlot {
  uid: AdapterUid;
  name: string;
  session: DecodeSession;
  /** Null: the base model. */
  params: TensorMap | null;
  /** Sequences waiting or running. */
  uses: number;
  retired: boolean;
}

export interface AdapterSlots {
  get(uid: AdapterUid): AdapterSlot | undefined;
  load(name: string, folder: string): Promise<LoadOutcome>;
  /** No new use; freed at once or with its last sequence. */
  retire(uid: AdapterUid): void;
  /** One sequence less. */
  release(slot: AdapterSlot): void;
  count(): number;
}

/** SHA-256 over shape and weights: what "the same adapter" means. */
function fingerprintOf(adapter: Adapter): string {
  const hash = createHash('sha256').update(JSON.stringify(adapter.spec));
  for (const [name, tensor] of adapter.tensors) {
    const { buffer, byteOffset, byteLength } = tensor.data;
    hash.update(`${name}${tensor.shape}`).update(new Uint8Array(buffer, byteOffset, byteLength));
  }
  return hash.digest('hex');
}

/** Reads an adapter and says what is wrong with it in the terms of the load route. */
function readChecked(
  model: EngineModel,
  folder: string,
  maxRank: number,
): Adapter | Exclude<LoadOutcome, { kind: 'ok' }> {
  if (!existsSync(join(folder, 'adapter_config.json'))) {
    return { kind: 'not-found', message: `No adapter found for ${folder}` };
  }
  try {
    const adapter = model.readAdapter(folder);
    if (adapter.spec.r > maxRank) {
      const message = `LoRA rank ${adapter.spec.r} is greater than max_lora_rank ${maxRank}.`;
      return { kind: 'refused', message };
    }
    return adapter;
  } catch (error) {
    return { kind: 'refused', message: messageOf(error) };
  }
}

/** `onFree` hears of every adapter whose weights are let go. */
export async function createAdapterSlots(
  model: EngineModel,
  maxRank: number,
  onFree: (uid: AdapterUid) => void,
): Promise<AdapterSlots> {
  // Adapters of one shape share a compiled graph; weights are its inputs.
  const sessions = new Map<string, Promise<DecodeSession>>();
  const slots = new Map<AdapterUid, AdapterSlot>();
  let lastUid = 0;

  function sessionFor(lora: LoraSpec | null): Promise<DecodeSession> {
    const key = lora ? JSON.stringify([lora.r, lora.alpha, lora.rslora, [...lora.targets].sort()]) : 'base';
    let session = sessions.get(key);
    if (!session) {
      session = model.session(lora);
      sessions.set(key, session);
      session.catch(() => sessions.delete(key));
    }
    return session;
  }

  function freeIfIdle(slot: AdapterSlot): void {
    if (!slot.retired || slot.uses > 0) return;
    slots.delete(slot.uid);
    onFree(slot.uid);
  }

  slots.set(0, {
    uid: 0,
    name: 'base model',
    session: await sessionFor(null),
    params: null,
    uses: 0,
    retired: false,
  });

  return {
    get: (uid) => slots.get(uid),
    async load(name, folder) {
      const adapter = readChecked(model, folder, maxRank);
      if ('kind' in adapter) return adapter;
      try {
        const session = await sessionFor(adapter.spec);
        const trial = new Float32Array([1]);
        // One token through the model: an adapter that the graph cannot take fails here, not in a batch.
        await session.prefill([new Int32Array([0])], adapter.tensors, trial);
        const uid = ++lastUid;
        slots.set(uid, { uid, name, session, params: adapter.tensors, uses: 0, retired: false });
        return { kind: 'ok', adapter: uid, fingerprint: fingerprintOf(adapter), rank: adapter.spec.r };
      } catch (error) {
        return { kind: 'refused', message: messageOf(error) };
      }
    },
    retire(uid) {
      const slot = slots.get(uid);
      if (!slot || uid === 0) return;
      slot.retired = true;
      freeIfIdle(slot);
    },
    release(slot) {
      slot.uses--;
      freeIfIdle(slot);
    },
    count: () => slots.size - 1,
  };
}
