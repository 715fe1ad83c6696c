/**
 * For the tests of the token tree: random families of samples over the tiny Qwen3, the policy update with a
 * learner that keeps its gradients, and the same update made from every sample alone.
 */
import { loadQwen3Tiny } from '../../test/vectors/qwen3-tiny.ts';
import { type Random, stream } from '../base/random.ts';
import { loraScale, readAdapter } from '../engine/peft.ts';
import { addTensors, copyAdapter } from '../engine/tensors.ts';
import { chainBatch, maxDifference } from '../engine/test-support.ts';
import { createTrainingSession, type TrainingSession } from '../engine/training-session.ts';
import type { Adapter, RowValues, TensorMap, TreeBatch } from '../engine/types.ts';
import type { CreditedCall } from './credit.ts';
import type { Learner } from './learner/learner.ts';
import { type LossConfig, type LossStats, lossCoefficients } from './loss.ts';
import { tableTrajectory } from './test-support-rollout.ts';
import type { Sample } from './token-tree.ts';

const { folder, adapterFolder } = loadQwen3Tiny();

/** Sessions of the tiny Qwen3, and its adapter in three states: before the first update, after it, reference. */
export interface Tiny {
  forward: TrainingSession;
  backward: TrainingSession;
  scale: number;
  adapters: [first: Adapter, second: Adapter];
  reference: Adapter;
}

export async function openTiny(): Promise<Tiny> {
  const first = readAdapter(adapterFolder);
  const moved = (seed: number, by: number): Adapter => {
    const random = stream(seed, 'moved');
    const adapter = copyAdapter(first);
    for (const { data } of adapter.tensors.values())
      for (let i = 0; i < data.length; i++) data[i]! += by * random.normal();
    return adapter;
  };
  const open = (gradients: boolean) =>
    createTrainingSession({ folder, lora: first.spec, mode: 'lora', gradients, threads: 1 });
  return {
    forward: await open(false),
    backward: await open(true),
    scale: loraScale(first.spec),
    adapters: [first, moved(1, 0.05)],
    reference: moved(2, 0.1),
  };
}

export type Family = 'shared' | 'nested' | 'identical' | 'disjoint' | 'single' | 'mixed';
export const FAMILIES: Family[] = ['shared', 'nested', 'identical', 'disjoint', 'single', 'mixed'];

/** Few different ids, so that samples also share what nobody planned; at most 40 tokens a sample. */
export function familyOf(family: Family, random: Random): Sample[] {
  const ids = (n: number): number[] => Array.from({ length: n }, () => 2 + random.int(4));
  const output = (): number[] => ids(1 + random.int(7));
  const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
  switch (family) {
    case 'shared': {
      const prompts = times(3, () => ids(2 + random.int(10)));
      return times(12, (i) => ({ promptIds: prompts[i % 3]!, outputIds: output() }));
    }
    case 'nested': {
      // Rounds: each prompt holds the call before it. And outputs that go on where another one ends.
      const samples: Sample[] = [{ promptIds: ids(3), outputIds: output() }];
      while (samples.length < 4) {
        const { promptIds, outputIds } = samples.at(-1)!;
        samples.push({ promptIds: [...promptIds, ...outputIds, ...ids(random.int(3))], outputIds: output() });
      }
      const { promptIds, outputIds } = samples.at(-1)!;
      const longer = times(3, (i) => ({ promptIds, outputIds: [...outputIds, ...ids(1 + i)] }));
      return [...samples, ...longer, { promptIds, outputIds: outputIds.slice(0, 1) }];
    }
    case 'identical': {
      const [one, two] = times(2, () => ({ promptIds: ids(5), outputIds: output() }));
      return [one!, two!, one!, one!, two!, { promptIds: one!.promptIds, outputIds: [] }];
    }
    case 'disjoint':
      return times(6, (i) => ({ promptIds: [10 + i, ...ids(random.int(9))], outputIds: output() }));
    case 'single':
      return times(9, (i) => ({ promptIds: [2 + (i % 2)], outputIds: ids(1) }));
    case 'mixed':
      return FAMILIES.slice(0, 5).flatMap((name) => random.shuffle(familyOf(name, random)).slice(0, 4));
  }
}

/** The samples as calls, with random advantages and a sampler that the learner does not quite agree with. */
export async function callsOf(
  tiny: Tiny,
  samples: readonly Sample[],
  temperature: number,
  random: Random,
): Promise<CreditedCall[]> {
  const calls: CreditedCall[] = [];
  for (const sample of samples) {
    const { rows } = await alone(tiny, sample, tiny.adapters[0], temperature);
    const sampler = Array.from(rows.logprobs, (x) => x + 0.2 * random.normal());
    const trajectory = tableTrajectory(0, [[sample.promptIds, sample.outputIds]], () => sampler);
    calls.push({ trajectory, call: 0, advantage: random.normal() });
  }
  return calls;
}

const recordOf = ({ trajectory, call }: CreditedCall) => trajectory.calls[call]!;

/** One sample on its own: a chain, every sampled token a row. Without coefficients no gradients. */
async function alone(
  { forward, backward, scale }: Tiny,
  { promptIds, outputIds }: Sample,
  adapter: Adapter,
  temperature: number,
  coefficients?: { coef: Float32Array; entropyCoef: Float32Array },
): Promise<{ rows: RowValues; gradients?: TensorMap }> {
  if (outputIds.length === 0)
    return { rows: { logprobs: new Float32Array(), entropies: new Float32Array() } };
  const batch = chainBatch([{ ids: [...promptIds, ...outputIds], promptLength: promptIds.length }]);
  const session = coefficients ? backward : forward;
  return session.run(batch, adapter.tensors, scale, { ...coefficients, temperature });
}

export interface Update {
  loss: number;
  stats: LossStats;
  gradients: Map<string, Float64Array>;
}

/** Both updates of two epochs, from every sample alone; gradients are added up in f64. */
export async function updatesAlone(
  tiny: Tiny,
  calls: readonly CreditedCall[],
  loss: LossConfig,
  temperature: number,
): Promise<Update[]> {
  const records = calls.map(recordOf);
  const valuesUnder = async (adapter: Adapter) => {
    const all: RowValues[] = [];
    for (const record of records) all.push((await alone(tiny, record, adapter, temperature)).rows);
    const join = (key: keyof RowValues): Float32Array =>
      Float32Array.from(all.flatMap((rows) => [...rows[key]]));
    return { logprobs: join('logprobs'), entropies: join('entropies') };
  };
  const offsets = new Int32Array(records.length + 1);
  for (const [s, { outputIds }] of records.entries()) offsets[s + 1] = offsets[s]! + outputIds.length;
  const old = await valuesUnder(tiny.adapters[0]);
  const updates: Update[] = [];
  for (const adapter of tiny.adapters) {
    const current = await valuesUnder(adapter);
    const out = lossCoefficients(
      {
        offsets,
        advantages: Float32Array.from(
          calls.flatMap(({ advantage }, s) => records[s]!.outputIds.map(() => advantage)),
        ),
        current: current.logprobs,
        old: old.logprobs,
        sampler: Float32Array.from(records.flatMap(({ logprobs }) => logprobs)),
        reference: loss.kl.coef > 0 ? (await valuesUnder(tiny.reference)).logprobs : null,
        entropies: current.entropies,
      },
      loss,
    );
    const gradients = new Map(
      [...adapter.tensors].map(([name, { data }]) => [name, new Float64Array(data.length)] as const),
    );
    for (const [s, record] of records.entries()) {
      const part = (values: Float32Array): Float32Array => values.slice(offsets[s]!, offsets[s + 1]!);
      const coefficients = { coef: part(out.coef), entropyCoef: part(out.entropyCoef) };
      const { gradients: parts } = await alone(tiny, record, adapter, temperature, coefficients);
      for (const [name, { data }] of parts ?? []) {
        const sum = gradients.get(name)!;
        for (let i = 0; i < data.length; i++) sum[i]! += data[i]!;
      }
    }
    updates.push({ loss: out.loss, stats: out.stats, gradients });
  }
  return updates;
}

/** A learner that keeps the gradient of each update and goes on to the next adapter of `tiny`, whatever it was. */
export function recordingLearner(
  { forward, backward, scale, adapters, reference }: Tiny,
  change: (batch: TreeBatch) => TreeBatch = (batch) => batch,
): Learner & { gradients: TensorMap[]; passes: number } {
  let gathered: TensorMap | null = null;
  const gradients: TensorMap[] = [];
  const unused = (): never => {
    throw new Error('not part of an update');
  };
  const policy = (): TensorMap => adapters[Math.min(gradients.length, 1)]!.tensors;
  return {
    gradients,
    passes: 0,
    async rowValues(batch, weights, temperature) {
      const params = weights === 'policy' ? policy() : reference.tensors;
      return (await forward.run(change(batch), params, scale, { temperature })).rows;
    },
    async accumulate(batch, coef, entropyCoef, temperature) {
      this.passes++;
      const result = await backward.run(change(batch), policy(), scale, { coef, entropyCoef, temperature });
      if (gathered) addTensors(gathered, result.gradients!);
      else gathered = result.gradients!;
      return result.rows;
    },
    async update() {
      gradients.push(gathered!);
      gathered = null;
      return { gradNorm: 1, applied: true };
    },
    freezeReference: unused,
    state: unused,
    close: unused,
  };
}

/** The same batch with `more` positions behind every tree, a whole tree of them at the end, and ids in all of them. */
export function repadded(batch: TreeBatch, more: number): TreeBatch {
  const length = batch.length + more;
  const trees = batch.trees + 1;
  const size = trees * length;
  const spread = (from: Int32Array, filler: (i: number) => number): Int32Array =>
    Int32Array.from({ length: size }, (_, at) => {
      const [tree, i] = [Math.floor(at / length), at % length];
      return tree < batch.trees && i < batch.length ? from[tree * batch.length + i]! : filler(i);
    });
  return {
    trees,
    length,
    ids: spread(batch.ids, (i) => 2 + (i % 7)),
    positions: spread(batch.positions, (i) => i % 5),
    subtreeEnd: spread(batch.subtreeEnd, (i) => i + 1),
    hiddenIndex: batch.hiddenIndex.map((at) => Math.floor(at / batch.length) * length + (at % batch.length)),
    targetId: batch.targetId,
  };
}

/**
 * Largest difference of any tensor, in shares of that tensor's largest value. A tensor that is nothing but
 * rounding (a position that sees itself alone has no gradient through its scores) is held against a tenth of
 * the largest of all.
 */
export function gradientGap(got: TensorMap, want: Update['gradients']): number {
  const sizeOf = (values: Float64Array): number => values.reduce((a, x) => Math.max(a, Math.abs(x)), 0);
  const largest = Math.max(...[...want.values()].map(sizeOf));
  let most = 0;
  for (const [name, values] of want) {
    const size = sizeOf(values) > 1e-5 * largest ? sizeOf(values) : 0.1 * largest;
    most = Math.max(most, maxDifference(got.get(name)!.data, values) / size);
  }
  return most;
}
