/** Adapter folders that the contract is tried with, for a base model in Hugging Face layout. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDecoderConfig } from '../../src/engine/model-config.ts';
import { writeAdapter } from '../../src/engine/peft.ts';
import { ALL_MODULES, randomAdapter } from '../../src/engine/test-support.ts';
import type { ContractTarget } from './contract.ts';

/** The ceiling that the server under test has. */
export const MAX_RANK = 16;

/** Writes them below `root`: two of different effect, one above MAX_RANK, one whose files are torn. */
export async function writeAdapterFolders(
  root: string,
  modelFolder: string,
): Promise<ContractTarget['adapters']> {
  const folders = {
    first: join(root, 'first'),
    second: join(root, 'second'),
    tooWide: join(root, 'too-wide'),
    broken: join(root, 'broken'),
  };
  const write = async (folder: string, r: number, seed: number): Promise<void> => {
    const spec = { r, alpha: r, rslora: false, targets: ALL_MODULES };
    await writeAdapter(folder, randomAdapter(modelFolder, spec, seed), { baseModel: 'base' });
  };
  await write(folders.first, MAX_RANK / 2, 1);
  await write(folders.second, MAX_RANK, 2);
  await write(folders.tooWide, 2 * MAX_RANK, 3);
  mkdirSync(folders.broken);
  writeFileSync(join(folders.broken, 'adapter_config.json'), '{"r": 8, "lora_alpha"');
  return folders;
}

/** What of a target follows from its model folder; `promptIds` are those of a text by the model's tokenizer. */
export function targetOf(modelFolder: string): Pick<ContractTarget, 'vocabSize' | 'endId' | 'maxModelLen'> {
  const config = readDecoderConfig(modelFolder);
  return {
    vocabSize: config.vocabSize,
    endId: config.eosTokenIds[0]!,
    maxModelLen: config.maxPositions,
  };
}
