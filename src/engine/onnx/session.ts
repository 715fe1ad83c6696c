/** Running an emitted model on onnxruntime-node. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { InferenceSession, Tensor as OrtTensor } from 'onnxruntime-node';
import { UserError } from '../../base/errors.ts';
import type { Executor, ExecutorOptions, Session } from '../executor.ts';
import type { Node } from '../graph.ts';
import type { SafetensorsEntry } from '../safetensors.ts';
import { type ExternalWeight, emitOnnx } from './emit.ts';

export interface SessionOptions extends ExecutorOptions {
  /**
   * Repacking constant weights for the matrix kernels: faster for few rows, but a private copy. Without it
   * weights stay mapped from their files and are shared between sessions and processes.
   */
  prepack: boolean;
  /** Keep freed memory for the next run: faster, and roughly twice the memory. */
  arena: boolean;
}

/** The executor for training: weights shared between sessions, memory kept from pass to pass. */
export const onnxExecutor: Executor = (outputs, options) =>
  createSession(outputs, { ...options, prepack: false, arena: true });

/** Compiles the graph that computes `outputs`; see `emitOnnx`. The files of the weights may be links. */
export async function createSession(
  outputs: ReadonlyMap<string, Node>,
  options: SessionOptions,
): Promise<Session> {
  checkCommandLine();
  const { folder, external } = locate(options.weights);
  const model = emitOnnx(outputs, external);
  const session = await InferenceSession.create(model, {
    intraOpNumThreads: options.threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    enableCpuMemArena: options.arena,
    // patterns are remembered for every input shape, and shapes change with every batch
    enableMemPattern: false,
    // what fails is thrown, and need not be printed too
    logSeverityLevel: 4,
    extra: {
      session: {
        disable_prepacking: options.prepack ? '0' : '1',
        model_external_initializers_file_folder_path: folder,
        intra_op: { allow_spinning: '0' },
      },
    },
  });
  const names = [...outputs.keys()];
  return {
    async run(feeds) {
      const wrapped: Record<string, OrtTensor> = {};
      for (const name of session.inputNames) {
        const feed = feeds.get(name);
        if (!feed) throw new Error(`input '${name}' is missing`);
        const { shape, data } = feed;
        const type = data instanceof Int32Array ? 'int32' : 'float32';
        wrapped[name] = new OrtTensor(type, data as never, shape);
      }
      const results = await session.run(wrapped, names);
      return new Map(
        names.map((name) => {
          const { dims, data } = results[name]!;
          return [name, { shape: dims, data: data as Float32Array | Int32Array }];
        }),
      );
    },
    release: () => session.release(),
  };
}

/**
 * onnxruntime reads external data only from below one folder and follows no link out of it, while a Hugging
 * Face cache is a folder of links into its store: so links are resolved here, and the folder is the deepest
 * one above all files.
 */
function locate(weights: ReadonlyMap<string, SafetensorsEntry>): {
  folder: string;
  external: (name: string) => ExternalWeight;
} {
  const real = new Map<string, string>();
  for (const { file } of weights.values()) if (!real.has(file)) real.set(file, realpathSync(file));
  let folder = dirname([...real.values()][0] ?? '.');
  const isBelow = (file: string): boolean => !relative(folder, file).startsWith('..');
  while (![...real.values()].every(isBelow) && folder !== dirname(folder)) folder = dirname(folder);
  return {
    folder,
    external(name) {
      const entry = weights.get(name);
      if (!entry) throw new Error(`no weight '${name}'`);
      return { ...entry, file: relative(folder, real.get(entry.file)!) };
    },
  };
}

const COMMAND_LINE = '/proc/self/cmdline';
const MAX_COMMAND_LINE = 12_000;

/** onnxruntime matches the command line with a recursive pattern: a long one overflows a thread's stack. */
function checkCommandLine(): void {
  if (!existsSync(COMMAND_LINE)) return;
  const { length } = readFileSync(COMMAND_LINE);
  if (length > MAX_COMMAND_LINE)
    throw new UserError(
      `has ${length} bytes; onnxruntime bears ${MAX_COMMAND_LINE}`,
      'command line',
      'put settings into the configuration file, and a long question into a file of questions (--query-id)',
    );
}
