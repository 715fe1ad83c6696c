/**
 * What every learner must do, as tests: the same values, gradients and adapters as PyTorch, transformers and
 * PEFT left in test/vectors/qwen3-tiny, and as the `onnx` learner on random batches; and what a run relies on,
 * such as an exact state and updates that are left out whole.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { loadQwen3Tiny } from '../../../test/vectors/qwen3-tiny.ts';
import { stream } from '../../base/random.ts';
import { onnxExecutor } from '../../engine/onnx/session.ts';
import { tensorGap } from '../../engine/test-support.ts';
import type { Adapter, TensorMap } from '../../engine/types.ts';
import { createOptimizerState, type OptimizerConfig } from '../optimizer.ts';
import { packSamples, rowsToTokens, tokensToRows } from '../token-tree.ts';
import { createCore } from './core.ts';
import { copyState, type Learner, type LearnerOptions } from './learner.ts';
import { randomPasses, stepOn, type TinyPass, tinyOptions } from './test-support-tiny.ts';

export interface Subject {
  open(options: LearnerOptions): Promise<Learner>;
  /** Largest allowed difference: of values in nats, of gradients and adapters relative to their largest entry. */
  tolerance: { values: number; gradients: number; adapters: number };
  /** Whether equal calls give equal bytes, as they do on a CPU. */
  exact: boolean;
}

const { vectors, expected } = loadQwen3Tiny();
const TEMPERATURES = [1, 0.7] as const;

/** An update is then the gradient itself: lr · g / (|g| + ε) with lr = ε far above every |g|. */
const PLAIN: OptimizerConfig & { rate: number } = {
  betas: [0, 0],
  eps: 1e6,
  weightDecay: 0,
  clipNorm: 1e9,
  rate: 1e6,
};
/** Adapter after each of so many updates on random passes. */
async function trained(learner: Learner, updates: number): Promise<Adapter[]> {
  const random = stream(5, 'conformance');
  const out: Adapter[] = [];
  for (let step = 0; step < updates; step++) {
    await stepOn(learner, randomPasses(random));
    out.push((await learner.state()).adapter);
  }
  return out;
}

const tinySamples = vectors.samples.map(({ ids, promptLength }) => ({
  promptIds: ids.slice(0, promptLength),
  outputIds: ids.slice(promptLength),
}));
const tinyCoef = Float32Array.from(vectors.samples.flatMap(({ coef }) => coef));

/** The committed samples in passes, with the committed objective's coefficients. */
function tinyPasses(tokensPerPass: number): TinyPass[] {
  return packSamples(tinySamples, { maxTreeTokens: 64, tokensPerPass }).passes.map((pass) => ({
    batch: pass.batch,
    coef: tokensToRows(pass, tinyCoef),
    entropyCoef: tokensToRows(pass, new Float32Array(tinyCoef.length).fill(vectors.entropyCoef)),
  }));
}

/** Tests that hold for every learner. */
export function testLearner(name: string, { open, tolerance, exact }: Subject): void {
  describe(`the contract, kept by ${name}`, () => {
    const opened: Learner[] = [];
    const start = async (options: LearnerOptions): Promise<Learner> => {
      const learner = await open(options);
      opened.push(learner);
      return learner;
    };
    const onnx = async (options: LearnerOptions): Promise<Learner> => {
      const learner = await createCore(options, onnxExecutor);
      opened.push(learner);
      return learner;
    };
    afterEach(async () => {
      for (const learner of opened.splice(0)) await learner.close();
    });
    const expectSame = (got: unknown, want: unknown): void => {
      if (exact) expect(got).toEqual(want);
    };

    it.each(TEMPERATURES)(
      'gives the log-probabilities and entropies of transformers at temperature %d, in nats',
      async (temperature) => {
        const learner = await start(tinyOptions());
        const packed = packSamples(tinySamples, { maxTreeTokens: 64, tokensPerPass: 64 });
        for (const [weights, kind] of [
          ['policy', 'adapter'],
          ['base', 'base'],
          // Without a reference of its own a run is compared with the base model.
          ['reference', 'base'],
        ] as const) {
          const got = { logprobs: tinyCoef.slice(), entropies: tinyCoef.slice() };
          for (const pass of packed.passes) {
            const rows = await learner.rowValues(pass.batch, weights, temperature);
            rowsToTokens(pass, rows.logprobs, got.logprobs);
            rowsToTokens(pass, rows.entropies, got.entropies);
          }
          for (const value of ['logprobs', 'entropies'] as const) {
            const want = vectors.samples.flatMap((sample) =>
              sample[kind][`temperature ${temperature}`][value].slice(sample.promptLength - 1),
            );
            got[value].forEach((x, t) => {
              expect(Math.abs(x - want[t]!), `${value} ${t} of ${weights}`).toBeLessThan(tolerance.values);
            });
          }
        }
      },
    );

    it.each(TEMPERATURES)("gathers PyTorch's gradients at temperature %d", async (temperature) => {
      const learner = await start(tinyOptions(PLAIN));
      const before = tinyOptions().start.adapter.tensors;
      for (const { batch, coef, entropyCoef } of tinyPasses(32))
        await learner.accumulate(batch, coef, entropyCoef, temperature);
      const { gradNorm } = await learner.update(PLAIN.rate);
      const after = (await learner.state()).adapter.tensors;
      const gradient: TensorMap = new Map();
      const want: TensorMap = new Map();
      for (const [key, { shape, data }] of before) {
        gradient.set(key, { shape, data: data.map((x, i) => x - after.get(key)!.data[i]!) });
        want.set(key, expected.get(`gradient.${temperature}.${key}`)!);
      }
      expect(tensorGap(gradient, want)).toBeLessThan(tolerance.gradients);
      const norm = Math.hypot(...[...want.values()].flatMap(({ data }) => [...data]));
      expect(Math.abs(gradNorm / norm - 1)).toBeLessThan(tolerance.gradients);
    });

    it.each([32, 4096])("leaves the adapter of PyTorch's AdamW, in passes of %i tokens", async (tokens) => {
      const { adamw } = vectors;
      const { eps, weightDecay } = adamw;
      const learner = await start(
        tinyOptions({ betas: [adamw.beta1, adamw.beta2], eps, weightDecay, clipNorm: 1e9 }),
      );
      const objectives: number[] = [];
      for (let step = 0; step < adamw.steps; step++) {
        let objective = 0;
        for (const { batch, coef, entropyCoef } of tinyPasses(tokens)) {
          const rows = await learner.accumulate(batch, coef, entropyCoef, 1);
          coef.forEach((c, r) => {
            objective += c * rows.logprobs[r]! + entropyCoef[r]! * rows.entropies[r]!;
          });
        }
        objectives.push(objective);
        await learner.update(adamw.lr);
      }
      const want = new Map(
        [...tinyOptions().start.adapter.tensors.keys()].map((key) => [key, expected.get(`adamw.${key}`)!]),
      );
      expect(tensorGap((await learner.state()).adapter.tensors, want)).toBeLessThan(tolerance.adapters);
      objectives.forEach((value, step) => {
        expect(Math.abs(value - adamw.objectiveBeforeStep[step]!)).toBeLessThan(50 * tolerance.values);
      });
    });

    it('leaves the adapter of the onnx learner after one update and after ten', async () => {
      const got = await trained(await start(tinyOptions()), 10);
      const want = await trained(await onnx(tinyOptions()), 10);
      for (const step of [0, 9])
        expect(tensorGap(got[step]!.tensors, want[step]!.tensors), `update ${step + 1}`).toBeLessThan(
          tolerance.adapters,
        );
      // The comparison means something: ten updates moved every tensor far beyond the tolerance.
      for (const [key, tensor] of tinyOptions().start.adapter.tensors)
        expect(
          tensorGap(new Map([[key, tensor]]), new Map([[key, want[9]!.tensors.get(key)!]])),
        ).toBeGreaterThan(100 * tolerance.adapters);
    });

    it('gives back the values of the weights that the gradient is of', async () => {
      const learner = await start(tinyOptions());
      for (const { batch, coef, entropyCoef } of randomPasses(stream(2, 'values'))) {
        const values = await learner.rowValues(batch, 'policy', 0.9);
        const rows = await learner.accumulate(batch, coef, entropyCoef, 0.9);
        expect(rows.logprobs.length).toBe(batch.targetId.length);
        rows.logprobs.forEach((x, r) => {
          expect(Math.abs(x - values.logprobs[r]!)).toBeLessThan(tolerance.values);
          expect(Math.abs(rows.entropies[r]! - values.entropies[r]!)).toBeLessThan(tolerance.values);
        });
      }
    });

    it('gathers sums: a batch twice is twice its gradient, and an update empties what gathered', async () => {
      const [pass] = randomPasses(stream(3, 'sums'));
      const learner = await start(tinyOptions(PLAIN));
      const once = await stepOn(learner, [pass!], 0);
      const twice = await stepOn(learner, [pass!, pass!], 0);
      const again = await stepOn(learner, [pass!], 0);
      expect(twice.gradNorm / once.gradNorm).toBeCloseTo(2, 5);
      expect(again.gradNorm / once.gradNorm).toBeCloseTo(1, 5);
      await expect(learner.update(1)).rejects.toThrow(/nothing was accumulated/);
    });

    it('freezes the policy as reference, and starts the optimiser anew', async () => {
      const learner = await start(tinyOptions());
      const passes = randomPasses(stream(4, 'freeze'));
      const { batch } = passes[0]!;
      await stepOn(learner, passes);
      await learner.freezeReference();
      const policy = await learner.rowValues(batch, 'policy', 1);
      expectSame(await learner.rowValues(batch, 'reference', 1), policy);
      const frozen = await learner.state();
      expect(frozen.reference!.tensors).toEqual(frozen.adapter.tensors);
      expect(frozen.optimizer).toEqual(createOptimizerState(frozen.adapter.tensors));
      await stepOn(learner, passes);
      const reference = await learner.rowValues(batch, 'reference', 1);
      expectSame(reference, policy);
      const moved = await learner.rowValues(batch, 'policy', 1);
      const base = await learner.rowValues(batch, 'base', 1);
      for (const other of [moved, base])
        expect(
          Math.max(...other.logprobs.map((x, r) => Math.abs(x - reference.logprobs[r]!))),
        ).toBeGreaterThan(100 * tolerance.values);
      const after = await learner.state();
      expect(after.reference!.tensors).toEqual(frozen.adapter.tensors);
      expect(after.optimizer.step).toBe(1);
    });

    it('goes on from its state as if nothing had happened', async () => {
      const random = stream(6, 'resume');
      const steps = Array.from({ length: 4 }, () => randomPasses(random));
      const learner = await start(tinyOptions());
      await stepOn(learner, steps[0]!);
      await learner.freezeReference();
      await stepOn(learner, steps[1]!);
      const kept = await learner.state();
      const copy = copyState(kept);
      await stepOn(learner, steps[2]!);
      await stepOn(learner, steps[3]!);
      const end = await learner.state();
      // What was given out does not change with the learner.
      expect(kept).toEqual(copy);
      const values = await learner.rowValues(steps[0]![0]!.batch, 'reference', 1);

      const resumed = await start({ ...tinyOptions(), start: kept });
      expect(await resumed.state()).toEqual(copy);
      await stepOn(resumed, steps[2]!);
      await stepOn(resumed, steps[3]!);
      const resumedEnd = await resumed.state();
      expectSame(resumedEnd, end);
      expect(tensorGap(resumedEnd.adapter.tensors, end.adapter.tensors)).toBeLessThan(tolerance.adapters);
      expectSame(await resumed.rowValues(steps[0]![0]!.batch, 'reference', 1), values);
      expect(kept).toEqual(copy);
    });

    it.each([Number.NaN, Infinity])('leaves out an update whose gradient has a %d, whole', async (bad) => {
      const learner = await start(tinyOptions());
      const passes = randomPasses(stream(7, 'skip'));
      await stepOn(learner, passes);
      const before = await learner.state();
      const values = await learner.rowValues(passes[0]!.batch, 'policy', 1);
      const coef = passes[0]!.coef.slice();
      coef[0] = bad;
      const { gradNorm, applied } = await stepOn(learner, [{ ...passes[0]!, coef }, ...passes.slice(1)]);
      expect(applied).toBe(false);
      expect(Number.isFinite(gradNorm)).toBe(false);
      expect(await learner.state()).toEqual(before);
      expectSame(await learner.rowValues(passes[0]!.batch, 'policy', 1), values);
      const next = await stepOn(learner, passes);
      expect(next.applied).toBe(true);
      expect(Number.isFinite(next.gradNorm)).toBe(true);
    });

    it('clips by the global norm, and tells the norm before', async () => {
      const passes = randomPasses(stream(8, 'clip'));
      const clipped = { ...PLAIN, clipNorm: 0.5 };
      const learner = await start(tinyOptions(clipped));
      const before = tinyOptions().start.adapter.tensors;
      const { gradNorm } = await stepOn(learner, passes, PLAIN.rate);
      expect(gradNorm).toBeGreaterThan(0.5);
      const after = (await learner.state()).adapter.tensors;
      let squares = 0;
      for (const [key, { data }] of before)
        data.forEach((x, i) => {
          squares += (x - after.get(key)!.data[i]!) ** 2;
        });
      expect(Math.abs(Math.sqrt(squares) / 0.5 - 1)).toBeLessThan(1e-4);
    });

    it('refuses a batch without rows', async () => {
      const learner = await start(tinyOptions());
      const { batch } = randomPasses(stream(9, 'rows'))[0]!;
      const empty = { ...batch, hiddenIndex: new Int32Array(0), targetId: new Int32Array(0) };
      await expect(learner.rowValues(empty, 'policy', 1)).rejects.toThrow(/at least one row/);
    });
  });
}
