/** The base model of an adapter that is exported: where it is, and whether it is the one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../base/errors.ts';
import { readDecoderConfig } from '../../engine/model-config.ts';
import { checkAdapterFits } from '../../engine/peft.ts';
import { readPeftConfig } from '../../engine/peft-config.ts';
import type { Adapter } from '../../engine/types.ts';
import { weightsMark } from '../../engine/weights-mark.ts';
import type { RunInputs } from '../run-inputs.ts';
import { type BaseName, type ExportSource, publicName } from './source.ts';

/** The path of the base model: `given`, else what the run or the adapter's config names; null for nothing. */
export function basePath({ run, adapterFolder }: ExportSource, given: string | undefined): string | null {
  if (given !== undefined) return given;
  if (run) return run.config.model.path;
  return readPeftConfig(join(adapterFolder, 'adapter_config.json')).baseModel;
}

/** Whether there is a model at the path. */
export const isThere = (path: string): boolean => existsSync(join(path, 'config.json'));

/** UserError unless the adapter belongs to the model: shapes, and the mark of the weights where the run left it. */
export function checkBase(folder: string, adapter: Adapter, where: string, inputs: RunInputs | null): void {
  checkAdapterFits(adapter, readDecoderConfig(folder), where);
  if (inputs && weightsMark(folder) !== inputs.baseWeights)
    throw new UserError(
      'has other weights than when the run was trained on it',
      folder,
      'put that model back, or name its folder by --base',
    );
}

/** How the export calls the base model: `given`, else what others may know of the path. */
export function baseName(path: string | null, given: string | undefined): BaseName {
  if (given !== undefined) return { name: given, hub: true };
  return path === null ? { name: 'unknown', hub: false } : publicName(path);
}
