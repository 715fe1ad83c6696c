/** The learner against PyTorch's AdamW on the same objective, and its thread. */
import { describe, expect, it } from 'vitest';
import { loadQwen3Tiny } from '../../../test/vectors/qwen3-tiny.ts';
import { UserError } from '../../base/errors.ts';
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { readAdapter } from '../../engine/peft.ts';
import { createOptimizerState } from '../optimizer.ts';
import { packSamples, tokensToRows } from '../token-tree.ts';
import { createCore } from './core.ts';
import { createOnnxLearner } from './engine-learner.ts';
import type { LearnerOptions } from './learner.ts';

const { folder, adapterFolder, vectors, expected } = loadQwen3Tiny();
const { adamw, entropyCoef } = vectors;

function options(): LearnerOptions {
  const adapter = readAdapter(adapterFolder);
  return {
    modelFolder: folder,
    spec: adapter.spec,
    threads: 1,
    optimizer: {
      betas: [adamw.beta1, adamw.beta2],
      eps: adamw.eps,
      weightDecay: adamw.weightDecay,
      clipNorm: 1e9,
    },
    start: { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) },
  };
}

const samples = vectors.samples.map(({ ids, promptLength }) => ({
  promptIds: ids.slice(0, promptLength),
  outputIds: ids.slice(promptLength),
}));
const coef = Float32Array.from(vectors.samples.flatMap((sample) => sample.coef));

describe('the onnx learner', () => {
  it.each([64, 4096])(
    'three AdamW steps leave the tensors that PyTorch leaves, in passes of %i tokens',
    async (tokensPerPass) => {
      const learner = await createCore(options(), onnxExecutor);
      const packed = packSamples(samples, { maxTreeTokens: 64, tokensPerPass });
      for (let step = 0; step < adamw.steps; step++) {
        for (const pass of packed.passes) {
          const entropy = tokensToRows(pass, new Float32Array(coef.length).fill(entropyCoef));
          await learner.accumulate(pass.batch, tokensToRows(pass, coef), entropy, 1);
        }
        await learner.update(adamw.lr);
      }
      const { adapter } = await learner.state();
      for (const [name, { data }] of adapter.tensors) {
        const want = expected.get(`adamw.${name}`)!.data;
        for (let i = 0; i < data.length; i++)
          expect(Math.abs(data[i]! - want[i]!), `${name}[${i}]`).toBeLessThan(1e-4);
      }
      await learner.close();
    },
  );

  it('a run that starts from an adapter has KL 0 to its frozen copy, and another one to the base model', async () => {
    const learner = await createCore(options(), onnxExecutor);
    await learner.freezeReference();
    const { batch } = packSamples(samples, { maxTreeTokens: 64, tokensPerPass: 4096 }).passes[0]!;
    const policy = await learner.rowValues(batch, 'policy', 1);
    const reference = await learner.rowValues(batch, 'reference', 1);
    const base = await learner.rowValues(batch, 'base', 1);
    expect(reference).toEqual(policy);
    expect(base.logprobs).not.toEqual(policy.logprobs);
    await learner.close();
  });

  it('works from its thread, gives the same bytes, and says what is wrong with a model folder', async () => {
    const core = await createCore(options(), onnxExecutor);
    const learner = await createOnnxLearner(options());
    const { batch } = packSamples(samples, { maxTreeTokens: 64, tokensPerPass: 4096 }).passes[0]!;
    expect(await learner.rowValues(batch, 'policy', 0.7)).toEqual(await core.rowValues(batch, 'policy', 0.7));
    await expect(learner.update(1)).rejects.toThrow(/nothing was accumulated/);
    await core.close();
    await learner.close();
    const failure = createOnnxLearner({ ...options(), modelFolder: '/nowhere' });
    await expect(failure).rejects.toThrow(/\/nowhere/);
    await expect(failure).rejects.toBeInstanceOf(UserError);
  });
});
