/** What the worker needs of the engine, behind one door: tests put a small model of their own here. */
import { createDecodeSession, type DecodeSession } from '../engine/decode-session.ts';
import { readDecoderConfig } from '../engine/model-config.ts';
import { checkAdapterFits, readAdapter } from '../engine/peft.ts';
import type { Adapter, LoraSpec } from '../engine/types.ts';

export interface EngineModel {
  /** A session whose adapters have this shape; null runs the base model. */
  session(lora: LoraSpec | null): Promise<DecodeSession>;
  /** Reads a PEFT adapter folder; one that is damaged or does not fit the model is a UserError. */
  readAdapter(folder: string): Adapter;
}

export interface EngineModule {
  openModel(folder: string, threads: number): Promise<EngineModel>;
}

export async function openModel(folder: string, threads: number): Promise<EngineModel> {
  const config = readDecoderConfig(folder);
  return {
    session: (lora) => createDecodeSession({ folder, lora, threads }),
    readAdapter(adapterFolder) {
      const adapter = readAdapter(adapterFolder);
      checkAdapterFits(adapter, config, adapterFolder);
      return adapter;
    },
  };
}
