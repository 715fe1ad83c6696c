/** The adapters in the worker's memory: counted by use, so that an unloaded one ends its requests first. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import type { DecodeSession } from '../engine/decode-session.ts';
import type { Adapter, LoraSpec, TensorMap } from '../engine/types.ts';
import { attempt } from './attempt.ts';
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

interface SharedSession {
  session: Promise<DecodeSession>;
  users: number;
}

/** `onFree` hears of every adapter whose weights are let go. */
export async function createAdapterSlots(
  model: EngineModel,
  maxRank: number,
  onFree: (uid: AdapterUid) => void,
): Promise<AdapterSlots> {
  // Adapters of one shape share a compiled graph; weights are its inputs. It goes with its last adapter.
  const sessions = new Map<string, SharedSession>();
  const slots = new Map<AdapterUid, AdapterSlot & { sessionKey: string }>();
  let lastUid = 0;

  function takeSession(key: string, lora: LoraSpec | null): Promise<DecodeSession> {
    const shared = sessions.get(key) ?? { session: model.session(lora), users: 0 };
    sessions.set(key, shared);
    shared.users++;
    return shared.session;
  }

  async function dropSession(key: string): Promise<void> {
    const shared = sessions.get(key)!;
    if (--shared.users > 0) return;
    sessions.delete(key);
    await (await shared.session).release();
  }

  function freeIfIdle(uid: AdapterUid): void {
    const slot = slots.get(uid);
    if (!slot?.retired || slot.uses > 0) return;
    slots.delete(uid);
    onFree(uid);
    void dropSession(slot.sessionKey);
  }

  function keep(
    uid: AdapterUid,
    name: string,
    sessionKey: string,
    session: DecodeSession,
    params: TensorMap | null,
  ): void {
    slots.set(uid, { uid, name, sessionKey, session, params, uses: 0, retired: false });
  }

  async function load(name: string, folder: string): Promise<LoadOutcome> {
    const adapter = readChecked(model, folder, maxRank);
    if ('kind' in adapter) return adapter;
    const { r, alpha, rslora, targets } = adapter.spec;
    const key = JSON.stringify([r, alpha, rslora, [...targets].sort()]);
    const session = await attempt(() => takeSession(key, adapter.spec));
    if (session.kind === 'error') {
      sessions.delete(key);
      return { kind: 'refused', message: session.message };
    }
    // One token through the model: an adapter that the graph cannot take fails here, not in a batch.
    const prompt = [new Int32Array([0])];
    const trial = await attempt(() => session.value.prefill(prompt, adapter.tensors, Float32Array.of(1)));
    if (trial.kind === 'error') {
      await dropSession(key);
      return { kind: 'refused', message: trial.message };
    }
    const uid = ++lastUid;
    keep(uid, name, key, session.value, adapter.tensors);
    return { kind: 'ok', adapter: uid, fingerprint: fingerprintOf(adapter) };
  }

  keep(0, 'base model', 'base', await takeSession('base', null), null);
  return {
    get: (uid) => slots.get(uid),
    load,
    retire(uid) {
      const slot = slots.get(uid);
      if (!slot || uid === 0) return;
      slot.retired = true;
      freeIfIdle(uid);
    },
    release(slot) {
      slot.uses--;
      freeIfIdle(slot.uid);
    },
    count: () => slots.size - 1,
  };
}
