/** Whether the run folder can be written, and has room for what a run leaves there. */
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeError, writeFileAtomic } from '../../base/atomic-write.ts';
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import type { DecoderConfig } from '../../engine/model-config.ts';
import { loraTensorShapes } from '../../engine/peft.ts';
import { short } from '../../report/text.ts';
import { runFolder } from '../../trainer/run-folder.ts';
import type { Passed } from './checklist.ts';

/** Bytes free to this user on the disk that holds `folder`. */
export async function freeDisk(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/**
 * Bytes of a run's adapters, one a step and the first, and of its checkpoints: adapter, two moments, and the KL
 * reference where there is one; those kept, the best, and the one being written. Trajectories are not counted.
 */
export function diskNeeds({ train, lora }: Pick<Config, 'train' | 'lora'>, decoder: DecoderConfig): number {
  const shapes = [...loraTensorShapes(decoder, lora).values()];
  const adapter = 4 * shapes.reduce((sum, [rows, columns]) => sum + rows * columns, 0);
  const checkpoint = adapter * (lora.start === undefined ? 3 : 4);
  return adapter * (train.steps + 1) + checkpoint * (train.keep + 2);
}

/** `decoder`: null while the model is still to be made. `free` tells the bytes free at a folder. */
export async function checkDisk(
  config: Config,
  decoder: DecoderConfig | null,
  free: (folder: string) => Promise<number>,
): Promise<Passed<null>> {
  const { root } = runFolder(config);
  const folder = nearestFolder(root);
  await tryWriting(folder);
  const room = await free(folder);
  const needs = decoder && diskNeeds(config, decoder);
  if (needs !== null && needs > room)
    throw new UserError(
      `adapters and checkpoints need about ${short(needs)}B, and ${short(room)}B are free`,
      folder,
      'free some space, set run.dir to another disk, or lower train.steps, train.keep or lora.r',
    );
  const held = folder === root ? (await readdir(root)).filter((name) => !name.startsWith('.')) : [];
  const need = needs === null ? '' : `, about ${short(needs)}B needed besides trajectories`;
  return {
    value: null,
    detail: `${folder} can be written, ${short(room)}B free${need}`,
    warnings: held.includes('config.json')
      ? ['it holds an earlier run: train wants --resume or --fresh']
      : [],
  };
}

/** The folder itself, or the nearest above it that exists. */
function nearestFolder(path: string): string {
  let at = path;
  while (!existsSync(at)) at = dirname(at);
  return at;
}

/** As a run writes: a temporary file, flushed and renamed. Leaves nothing. */
async function tryWriting(folder: string): Promise<void> {
  const trial = await mkdtemp(join(folder, '.lexpo-doctor-')).catch((error: unknown) => {
    throw writeError(error, folder);
  });
  try {
    await writeFileAtomic(join(trial, 'trial'), 'lexpo');
  } finally {
    await rm(trial, { recursive: true, force: true });
  }
}
