import { describe, expect, test } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { loadTfjs } from './load.ts';
import { tfjsCpu } from './test-support-cpu.ts';

const failing = (message: string, code?: string) => () =>
  Promise.reject(Object.assign(new Error(message), code && { code }));

const refusal = async (load: (() => Promise<unknown>) | undefined): Promise<string> => {
  const error: unknown = await loadTfjs(load).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UserError);
  return (error as Error).message;
};

describe('TensorFlow.js with CUDA', () => {
  test('absent: says what to install, and what that needs', async () => {
    const message = await refusal(
      failing("Cannot find package '@tensorflow/tfjs-node-gpu' imported from x", 'ERR_MODULE_NOT_FOUND'),
    );
    expect(message).toMatch(/tfjs-node-gpu: is not installed/);
    expect(message).toMatch(/npm install @tensorflow\/tfjs-node-gpu/);
    expect(message).toMatch(/Node 20 or 22.*CUDA 11\.2.*cuDNN 8\.1/);
  });

  const broken: Record<string, () => Promise<unknown>> = {
    addon: failing('The Node.js native addon module (tfjs_binding.node) can not be found at …\nPlease'),
    dependency: failing("Cannot find package 'adm-zip' imported from x", 'ERR_MODULE_NOT_FOUND'),
    product: async () => ({
      ...tfjsCpu,
      matMul() {
        throw new TypeError('(0 , util_1.isNullOrUndefined) is not a function');
      },
    }),
    number: async () => ({ ...tfjsCpu, matMul: tfjsCpu.add }),
  };
  test.each(Object.keys(broken))('installed with a broken %s: says so', async (what) => {
    const message = await refusal(broken[what]);
    expect(message).toMatch(/is installed, but does not work here: \S/);
    expect(message).toMatch(/npm rebuild/);
    expect(message.split('\n')).toHaveLength(2);
  });

  test('without a GPU: sends to onnx', async () => {
    const noGpu = { ...tfjsCpu, backend: () => ({ isUsingGpuDevice: false }) };
    expect(await refusal(async () => noGpu)).toMatch(/finds no GPU[\s\S]*learner\.kind onnx/);
  });

  test('is given as it is, as a CommonJS module too', async () => {
    expect(await loadTfjs(async () => tfjsCpu)).toBe(tfjsCpu);
    expect(await loadTfjs(async () => ({ default: tfjsCpu }))).toBe(tfjsCpu);
  });
});
