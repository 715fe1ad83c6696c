/** The `torch` learner as the loop sees it: the contract's calls as messages to `torch/learner.py`. */
import { z } from 'zod';
import type { Learner, LearnerOptions } from './learner.ts';
import type { TorchSettings } from './torch-launch.ts';
import { startTorch, type TorchProcess } from './torch-process.ts';
import { type Message, packBatch, packState, readBody, unpackState, unpackValues } from './wire.ts';

/**
 * Starts the processes, loads the model in each, and waits for that.
 *
 * @throws UserError for whatever keeps it from starting (torch-process.ts), and for a model that transformers
 *   cannot load. Every call fails with one when a process ends or does not answer in time.
 */
export async function createTorchLearner(
  options: LearnerOptions,
  settings: TorchSettings,
  say: (line: string) => void = () => {},
): Promise<Learner> {
  const process = await startTorch(settings);
  try {
    return await openTorchLearner(process, options, settings, 'auto', say);
  } catch (error) {
    await process.close();
    throw error;
  }
}

const passSchema = z.looseObject({
  /** Where memory ran out in this pass: on how many processes, and the tokens that one of them takes at once from here on. */
  halved: z.object({ ranks: z.number().int().min(1), tokens: z.number().int().min(1) }).optional(),
});
const updateSchema = z.looseObject({ gradNorm: z.number().nullable(), applied: z.boolean() });

/**
 * A learner in running processes, in place of the one that they held before. `attention` is for tests: `auto`
 * is flex attention on GPUs and a dense mask on the CPU.
 */
export async function openTorchLearner(
  process: TorchProcess,
  { modelFolder, spec, optimizer, start }: LearnerOptions,
  { dtype, gradientCheckpointing, startDeadlineMs, callDeadlineMs }: TorchSettings,
  attention: 'auto' | 'flex' | 'dense' = 'auto',
  say: (line: string) => void = () => {},
): Promise<Learner> {
  const shapes = new Map([...start.adapter.tensors].map(([name, { shape }]) => [name, { shape }]));
  const call = (kind: string, body: Message['body'] = {}, tensors: Message['tensors'] = new Map()) =>
    process.call({ kind, body, tensors }, kind === 'open' ? startDeadlineMs : callDeadlineMs);
  const state = packState(start);
  await call(
    'open',
    { ...state.body, modelFolder, optimizer, dtype, gradientCheckpointing, attention },
    state.tensors,
  );
  const pass = async (...request: Parameters<typeof call>): Promise<Message> => {
    const reply = await call(...request);
    const { halved } = readBody(passSchema, reply.body);
    if (halved)
      say(
        `memory ran out in a pass on ${halved.ranks} process${halved.ranks === 1 ? '' : 'es'}: from here on each takes ` +
          `at most ${halved.tokens} tokens at once, with the same gradient`,
      );
    return reply;
  };
  let gathered = false;
  return {
    async rowValues(batch, weights, temperature) {
      checkRows(batch.targetId.length);
      const { body, tensors } = packBatch(batch);
      const reply = await pass('rowValues', { ...body, weights, temperature }, tensors);
      return unpackValues(reply, batch.targetId.length);
    },
    async accumulate(batch, coef, entropyCoef, temperature) {
      checkRows(batch.targetId.length);
      const { body, tensors } = packBatch(batch, { coef, entropyCoef });
      const reply = await pass('accumulate', { ...body, temperature }, tensors);
      const rows = unpackValues(reply, batch.targetId.length);
      gathered = true;
      return rows;
    },
    async update(learningRate) {
      if (!gathered) throw new Error('update without a gradient: nothing was accumulated');
      gathered = false;
      const { gradNorm, applied } = readBody(updateSchema, (await call('update', { learningRate })).body);
      return { gradNorm: gradNorm ?? Number.NaN, applied };
    },
    async freezeReference() {
      await call('freezeReference');
    },
    async state() {
      return unpackState(await call('state'), spec, shapes);
    },
    close: () => process.close(),
  };
}

function checkRows(rows: number): void {
  if (rows === 0) throw new Error('a batch needs at least one row');
}
