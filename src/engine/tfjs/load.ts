/** Finding TensorFlow.js with its CUDA backend, which only who wants it installs. */
import { messageOf, UserError } from '../../base/errors.ts';
import type { Tfjs } from './backend.ts';

const PACKAGE = '@tensorflow/tfjs-node-gpu';
const NEEDS =
  'It needs Node 20 or 22 (its addon does not work on 23 and later), an NVIDIA GPU, CUDA 11.2 and cuDNN 8.1';

/**
 * The installed `@tensorflow/tfjs-node-gpu`, tried with one product. `load` imports it.
 *
 * @throws UserError when it is not installed, does not load or does not compute, and when it finds no GPU:
 *   without one onnxruntime is faster.
 */
export async function loadTfjs(load: () => Promise<unknown> = importPackage): Promise<Tfjs> {
  const tf = await load().catch((error: unknown) => {
    throw isAbsent(error)
      ? new UserError(
          'is not installed',
          PACKAGE,
          `npm install ${PACKAGE}@4, with its install script allowed (--ignore-scripts=false). ${NEEDS}. Or choose learner.kind onnx or torch`,
        )
      : broken(error);
  });
  // a CommonJS package: its exports are the default one of the module
  const found = ((tf as { default?: unknown }).default ?? tf) as Tfjs;
  try {
    await found.ready();
    const product = found.tidy(() =>
      found.matMul(
        found.tensor([1, 2], [1, 2], 'float32'),
        found.tensor([3, 4], [2, 1], 'float32'),
        false,
        false,
      ),
    );
    const [value] = await product.data();
    product.dispose();
    if (value !== 11) throw new Error(`1 · 3 + 2 · 4 gave ${value}`);
  } catch (error) {
    throw broken(error);
  }
  if ((found.backend() as { isUsingGpuDevice?: boolean }).isUsingGpuDevice === false)
    throw new UserError(
      'finds no GPU',
      PACKAGE,
      `check nvidia-smi and that the CUDA libraries are found (LD_LIBRARY_PATH). ${NEEDS}. Or choose learner.kind onnx, which is faster on a CPU`,
    );
  return found;
}

// a name that the compiler does not follow: the package's types are not there either
const importPackage = (): Promise<unknown> => import(PACKAGE as string);

/** The package itself is missing, and not something that it needs. */
function isAbsent(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: string; message?: string };
  return code === 'ERR_MODULE_NOT_FOUND' && (message ?? '').includes(`'${PACKAGE}'`);
}

const broken = (error: unknown): UserError =>
  new UserError(
    `is installed, but does not work here: ${messageOf(error).split('\n')[0]}`,
    PACKAGE,
    `${NEEDS}. Its install script downloads TensorFlow: npm rebuild ${PACKAGE} --ignore-scripts=false runs it again. Or choose learner.kind onnx or torch`,
  );
