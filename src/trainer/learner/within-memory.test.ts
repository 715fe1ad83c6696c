import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import { chainBatch, maxDifference } from '../../engine/test-support.ts';
import { createTrainingSession, type TrainingSession } from '../../engine/training-session.ts';
import type { TreeBatch } from '../../engine/types.ts';
import { tinyOptions } from './test-support-tiny.ts';
import { openWithinMemory, tokenBudget } from './within-memory.ts';

const { modelFolder: folder, spec, start } = tinyOptions();
const params = start.adapter.tensors;
let real: TrainingSession;
beforeAll(async () => {
  real = await createTrainingSession({ folder, lora: spec, mode: 'lora', gradients: true, threads: 1 });
});
afterAll(() => real.release());

/** The sentence of onnxruntime 1.30. */
const REFUSED =
  "Non-zero status code returned while running Gemm node. Name:'' Status Message: /onnxruntime_src/onnxruntime/core/" +
  'framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) ' +
  'Failed to allocate memory for requested buffer of size 12582912\n';

/** Sessions that have memory for so many positions. */
async function scarce(positions: number, message = REFUSED) {
  const told: string[] = [];
  const sizes: number[] = [];
  const counts = { opened: 0, released: 0 };
  const open = async (): Promise<TrainingSession> => {
    counts.opened++;
    return {
      parameters: real.parameters,
      async run(batch, ...rest) {
        if (batch.trees * batch.length > positions) throw new Error(message);
        sizes.push(batch.trees * batch.length);
        return real.run(batch, ...rest);
      },
      release: async () => {
        counts.released++;
      },
    };
  };
  const budget = tokenBudget((line) => told.push(line));
  const session = await openWithinMemory(open, budget);
  onTestFinished(() => session.release());
  return { session, open, budget, told, sizes, counts };
}

const random = stream(1, 'within-memory');
const ids = (n: number): number[] => Array.from({ length: n }, () => 2 + random.int(90));
const trees = (n: number): TreeBatch =>
  chainBatch(Array.from({ length: n }, (_, i) => ({ ids: ids(i === 0 ? 20 : 5 + i), promptLength: 3 })));

describe('when memory runs out', () => {
  it('the budget is halved once, with the same rows and gradients', async () => {
    const { session, told, sizes, counts, budget } = await scarce(60);
    for (const batch of [trees(2), trees(5), trees(3), trees(6)]) {
      const coef = Float32Array.from(batch.targetId, () => random.normal());
      const entropyCoef = Float32Array.from(batch.targetId, () => random.normal());
      const options = { coef, entropyCoef, temperature: 0.7 };
      const got = await session.run(batch, params, 2, options);
      const want = await real.run(batch, params, 2, options);
      for (const key of ['logprobs', 'entropies'] as const)
        expect(maxDifference(got.rows[key], want.rows[key])).toBeLessThan(1e-6);
      for (const [name, { data }] of want.gradients!) {
        const size = Math.max(...data.map(Math.abs));
        expect(maxDifference(got.gradients!.get(name)!.data, data) / size, name).toBeLessThan(1e-5);
      }
    }
    expect(budget.limit).toBe(50);
    expect(sizes).toEqual([40, 40, 40, 20, 40, 20, 40, 40, 40]);
    expect(told).toEqual([
      'memory ran out in a pass of 100 tokens: from here on passes have at most 50, with the same gradient',
    ]);
    // What the failed session held is given back.
    expect(counts).toEqual({ opened: 2, released: 1 });
  });

  it('a second time, one error says which settings to lower', async () => {
    const { session, budget, open } = await scarce(25);
    const failure = session.run(trees(6), params, 2);
    await expect(failure).rejects.toBeInstanceOf(UserError);
    await expect(failure).rejects.toThrow(/ran out.*\n.*recompute.*rowChunks.*tokensPerPass.*maxTreeTokens/);
    // The other session of the learner has the same budget, and fails at once.
    const other = await openWithinMemory(open, budget);
    await expect(other.run(trees(3), params, 2)).rejects.toBeInstanceOf(UserError);
    expect((await other.run(trees(1), params, 2)).rows.logprobs.length).toBeGreaterThan(0);
  });

  it('a single tree cannot be halved', async () => {
    const { session, told } = await scarce(10);
    await expect(session.run(trees(1), params, 2)).rejects.toThrow(/ran out in a pass of 20 tokens/);
    expect(told).toEqual([]);
  });

  it('any other error stays what it is', async () => {
    const { session, told } = await scarce(10, 'Non-zero status code: invalid shape');
    await expect(session.run(trees(3), params, 2)).rejects.toThrow('invalid shape');
    expect(told).toEqual([]);
  });

  it('already when a session is opened, that is said', async () => {
    const open = () => Promise.reject(new Error('std::bad_alloc'));
    const failure = openWithinMemory(
      open,
      tokenBudget(() => {}),
    );
    await expect(failure).rejects.toBeInstanceOf(UserError);
    await expect(failure).rejects.toThrow(/ran out while the model was opened/);
  });
});
