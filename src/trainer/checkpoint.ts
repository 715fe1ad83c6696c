/**
 * Checkpoints: one atomic folder each, `checkpoints/step-000010`, with everything that a resumed run needs
 * to go on as if nothing had happened. Random streams are named by step (base/random.ts), so their state is
 * the step itself. `state.json` carries a hash of every other file: a torn folder is skipped, never read.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeFolderAtomic } from '../base/atomic-write.ts';
import { messageOf, UserError } from '../base/errors.ts';
import { readAdapter, writeAdapter } from '../engine/peft.ts';
import { readSafetensors, writeSafetensors } from '../engine/safetensors.ts';
import type { TensorMap } from '../engine/types.ts';
import type { LearnerState } from './learner/learner.ts';
import { stepName } from './run-folder.ts';

const policy = z.strictObject({ version: z.number().int(), model: z.string() });

/** What of a run changes from step to step, besides the learner's state. */
const progressSchema = z.strictObject({
  /** Steps done. */
  step: z.number().int().min(0),
  policy,
  /**
   * The policies that the steps before this one left, oldest first, at most `train.maxStaleness`: steps to come
   * are sampled by them. Absent when on-policy.
   */
  earlier: z.array(policy).optional(),
  /** Name of the adapter that GRPO started from. */
  startAdapter: z.string(),
  /** Training questions drawn so far, over all epochs. */
  cursor: z.number().int().min(0),
  best: z.strictObject({ step: z.number().int(), value: z.number(), adapter: z.string() }).nullable(),
  /** Steps in a row whose gradient was not finite. */
  skippedInARow: z.number().int(),
  /** Steps in a row whose sampler and learner were too far apart. */
  alarmsInARow: z.number().int(),
  /** Seconds of work so far, earlier processes included. */
  seconds: z.number(),
});
export type Progress = z.infer<typeof progressSchema>;

const stateSchema = z.strictObject({
  format: z.literal(1),
  configHash: z.string(),
  optimizerStep: z.number().int(),
  progress: progressSchema,
  files: z.record(z.string(), z.string()),
});

export interface Checkpoint {
  learner: LearnerState;
  progress: Progress;
}

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const NAME = /^step-(\d{6,})$/;

async function hashFiles(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((e) => e.isFile()).map((e) => join(e.parentPath ?? e.path, e.name));
  const out: Record<string, string> = {};
  for (const file of files.sort()) out[file.slice(folder.length + 1)] = hashOf(await readFile(file));
  return out;
}

/** Writes the checkpoint of `progress.step`; one that is already there is replaced. */
export async function writeCheckpoint(
  root: string,
  { learner, progress }: Checkpoint,
  about: { configHash: string; baseModel: string },
): Promise<string> {
  const folder = join(root, stepName(progress.step));
  await writeFolderAtomic(
    folder,
    async (temporary) => {
      await writeAdapter(join(temporary, 'adapter'), learner.adapter, about);
      if (learner.reference) await writeAdapter(join(temporary, 'reference'), learner.reference, about);
      const moments: TensorMap = new Map();
      for (const kind of ['first', 'second'] as const)
        for (const [name, data] of learner.optimizer[kind])
          moments.set(`${kind}.${name}`, { shape: [data.length], data });
      writeSafetensors(join(temporary, 'optimizer.safetensors'), moments, { dtype: 'F32' });
      const state: z.infer<typeof stateSchema> = {
        format: 1,
        configHash: about.configHash,
        optimizerStep: learner.optimizer.step,
        progress,
        files: await hashFiles(temporary),
      };
      await writeFile(join(temporary, 'state.json'), `${JSON.stringify(state, null, 2)}\n`);
    },
    { replace: true },
  );
  return folder;
}

/** Reads one checkpoint folder. Throws an Error that says what is torn or missing. */
export async function readCheckpoint(folder: string): Promise<Checkpoint & { configHash: string }> {
  const state = stateSchema.parse(JSON.parse(await readFile(join(folder, 'state.json'), 'utf8')));
  for (const [file, hash] of Object.entries(state.files))
    if (hashOf(await readFile(join(folder, file))) !== hash) throw new Error(`${file} is damaged`);
  const { tensors } = readSafetensors(join(folder, 'optimizer.safetensors'));
  const moments = (kind: 'first' | 'second'): Map<string, Float32Array> =>
    new Map(
      [...tensors]
        .filter(([name]) => name.startsWith(`${kind}.`))
        .map(([name, t]) => [name.slice(kind.length + 1), t.data]),
    );
  const reference = join(folder, 'reference');
  return {
    configHash: state.configHash,
    progress: state.progress,
    learner: {
      adapter: readAdapter(join(folder, 'adapter')),
      reference: existsSync(reference) ? readAdapter(reference) : null,
      optimizer: { step: state.optimizerStep, first: moments('first'), second: moments('second') },
    },
  };
}

/** Steps that have a checkpoint folder, newest first; torn ones included. */
async function checkpointSteps(root: string): Promise<number[]> {
  if (!existsSync(root)) return [];
  const steps = (await readdir(root)).map((name) => NAME.exec(name)?.[1]).filter((s) => s !== undefined);
  return steps.map(Number).sort((a, b) => b - a);
}

/**
 * The newest checkpoint that is whole; null where none was ever written.
 *
 * @param onSkip told of each torn one.
 * @throws UserError when all are torn, or when it belongs to another configuration.
 */
export async function latestCheckpoint(
  root: string,
  configHash: string,
  onSkip: (line: string) => void,
): Promise<Checkpoint | null> {
  const steps = await checkpointSteps(root);
  for (const step of steps) {
    const folder = join(root, stepName(step));
    let found: Checkpoint & { configHash: string };
    try {
      found = await readCheckpoint(folder);
    } catch (error) {
      onSkip(`skipped the checkpoint ${folder}: ${messageOf(error)}`);
      continue;
    }
    if (found.configHash !== configHash)
      throw new UserError(
        'was written under another configuration, with other data or for another base model',
        folder,
        'put back what was changed, or start anew with --fresh',
      );
    return found;
  }
  if (steps.length === 0) return null;
  throw new UserError('holds no whole checkpoint to resume from', root, 'start anew with --fresh');
}

/** Removes all but the newest `keep` checkpoints and the one of `bestStep`. */
export async function pruneCheckpoints(root: string, keep: number, bestStep: number | null): Promise<void> {
  const steps = await checkpointSteps(root);
  for (const step of steps.slice(keep))
    if (step !== bestStep) await rm(join(root, stepName(step)), { recursive: true, force: true });
}
