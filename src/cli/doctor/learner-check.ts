/** Whether the configured learner can run on this machine, without starting it on the model. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { messageOf, UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import { loadTfjs } from '../../engine/tfjs/load.ts';
import type { TorchSettings } from '../../trainer/learner/torch-launch.ts';
import type { Passed } from './checklist.ts';

export async function checkLearner({ learner }: Pick<Config, 'learner'>): Promise<Passed<null>> {
  switch (learner.kind) {
    case 'onnx':
      return { value: null, detail: `onnxruntime ${await onnxVersion()}` };
    case 'tfjs':
      await loadTfjs();
      return { value: null, detail: 'TensorFlow.js computes on a GPU' };
    case 'torch':
      return { value: null, detail: await torchVersion(learner) };
  }
}

async function onnxVersion(): Promise<string> {
  try {
    const { env } = await import('onnxruntime-node');
    return env.versions.node ?? env.versions.common;
  } catch (error) {
    throw new UserError(
      `does not load here: ${messageOf(error).split('\n')[0]}`,
      'onnxruntime-node',
      'npm ci in the folder of lexpo, on this machine; or choose another learner.kind',
    );
  }
}

/** Importing PyTorch from a cold disk takes a while. */
const PYTHON_MS = 120_000;
const PROGRAM = [
  'import json, torch, transformers, safetensors',
  'print(json.dumps([torch.__version__, transformers.__version__, torch.cuda.device_count()]))',
].join('\n');

/** `torch 2.9.0, transformers 4.57.0, 2 GPUs`; UserError for a Python that is absent or lacks what is needed. */
async function torchVersion({ python, device, processes }: TorchSettings): Promise<string> {
  const { stdout } = await promisify(execFile)(python, ['-c', PROGRAM], { timeout: PYTHON_MS }).catch(
    (error: unknown) => {
      throw pythonError(error, python);
    },
  );
  const [torch, transformers, gpus] = JSON.parse(stdout.trim().split('\n').at(-1)!) as [
    string,
    string,
    number,
  ];
  if (device === 'cuda' && gpus < processes)
    throw new UserError(
      `${processes} GPUs are wanted and PyTorch sees ${gpus}`,
      'learner.device',
      'check nvidia-smi and CUDA_VISIBLE_DEVICES, lower learner.processes, or set learner.device to auto or cpu',
    );
  return `torch ${torch}, transformers ${transformers}, ${gpus === 1 ? '1 GPU' : `${gpus} GPUs`}`;
}

function pythonError(error: unknown, python: string): UserError {
  const { code, killed, stderr = '' } = error as { code?: unknown; killed?: boolean; stderr?: string };
  if (code === 'ENOENT' || code === 'EACCES')
    return new UserError(`cannot be started (${code})`, python, 'set learner.python to a Python interpreter');
  if (killed)
    return new UserError(`did not import torch within ${PYTHON_MS / 1000} s`, python, 'try it once by hand');
  const missing = /No module named '?([\w]+)/.exec(stderr)?.[1];
  if (missing)
    return new UserError(
      `has no ${missing}`,
      python,
      'pip install torch transformers safetensors, or set learner.python to an interpreter that has them',
    );
  const last = stderr.trim().split('\n').at(-1) || messageOf(error);
  return new UserError(
    `does not import torch: ${last}`,
    python,
    'mend that installation, or set learner.python',
  );
}
