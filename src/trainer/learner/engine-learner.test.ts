/** The thread of a learner on our own engine; what the learner computes is conformance.test.ts's. */
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { createCore } from './core.ts';
import { createOnnxLearner, createTfjsLearner } from './engine-learner.ts';
import { randomPasses, stepOn, tinyOptions } from './test-support-tiny.ts';

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

describe('a learner in its thread', () => {
  it('gives the same bytes as outside it, and its failures as they are', async () => {
    const core = await createCore(tinyOptions(), onnxExecutor);
    const learner = await createOnnxLearner(tinyOptions());
    const passes = randomPasses(stream(1, 'thread'));
    expect(await stepOn(learner, passes)).toEqual(await stepOn(core, passes));
    expect(await learner.state()).toEqual(await core.state());
    const { batch } = passes[0]!;
    expect(await learner.rowValues(batch, 'policy', 0.7)).toEqual(await core.rowValues(batch, 'policy', 0.7));
    await expect(learner.update(1)).rejects.toThrow(/nothing was accumulated/);
    await core.close();
    await learner.close();
  });

  it('says what is wrong with a model folder', async () => {
    const failure = createOnnxLearner({ ...tinyOptions(), modelFolder: '/nowhere' });
    await expect(failure).rejects.toThrow(/\/nowhere/);
    await expect(failure).rejects.toBeInstanceOf(UserError);
  });

  it.skipIf(isInstalled('@tensorflow/tfjs-node-gpu'))('says that TensorFlow.js is not there', async () => {
    const failure = createTfjsLearner(tinyOptions());
    await expect(failure).rejects.toThrow(/tfjs-node-gpu: is not installed\n.*npm install/);
    await expect(failure).rejects.toBeInstanceOf(UserError);
  });
});
