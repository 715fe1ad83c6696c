/**
 * Every model family against transformers and PEFT: values of the whole vocabulary, decoding through the cache,
 * LoRA gradients through token trees, and the adapter after ten steps of AdamW. The tiny random models of
 * test/vectors/families, on samples of their own.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type Random, stream } from '../../src/base/random.ts';
import { createDecodeSession } from '../../src/engine/decode-session.ts';
import { onnxExecutor } from '../../src/engine/onnx/session.ts';
import { loraScale, readAdapter } from '../../src/engine/peft.ts';
import { readSafetensors } from '../../src/engine/safetensors.ts';
import { addTensors } from '../../src/engine/tensors.ts';
import { chainBatch, maxDifference, tensorGap } from '../../src/engine/test-support.ts';
import { forcedLogprobs } from '../../src/engine/test-support-decode.ts';
import { createTrainingSession, type TrainingSession } from '../../src/engine/training-session.ts';
import type { Adapter, TensorMap } from '../../src/engine/types.ts';
import { createCore } from '../../src/trainer/learner/core.ts';
import { createOptimizerState } from '../../src/trainer/optimizer.ts';
import { packSamples, rowsToTokens, tokensToRows } from '../../src/trainer/token-tree.ts';
import { FAMILIES, familyPath } from '../../test/vectors/families.ts';
import { runPython } from '../python/run-python.ts';
import type { Area, Check } from './check.ts';

const PROGRAM = fileURLToPath(new URL('model_values.py', import.meta.url));
const TEMPERATURE = 0.7;
const ENTROPY = 0.1;
const ADAMW = { learningRate: 0.01, betas: [0.9, 0.95] as const, eps: 1e-8, weightDecay: 0.01, steps: 10 };
const VALUES = 5e-5;
const GRADIENTS = 1e-4;
const ADAPTERS = 5e-4;

interface Drawn {
  ids: number[];
  promptLength: number;
  coef: number[];
}

/** Samples with shared, nested and disjoint prefixes; ids below `vocab`, some of them twice. */
function drawSamples(random: Random, vocab: number): Drawn[] {
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(vocab));
  const drawn: Drawn[] = [];
  const add = (prompt: number[], output: number[]): void => {
    drawn.push({
      ids: [...prompt, ...output],
      promptLength: prompt.length,
      coef: output.map(() => Number(random.normal().toFixed(3))),
    });
  };
  for (let group = 0; group < 2; group++) {
    const prompt = ids(4 + random.int(8));
    for (let member = 0; member < 2; member++) add(prompt, ids(2 + random.int(7)));
    add([...prompt, ...ids(3)], ids(4));
    add(prompt, drawn.at(-2)!.ids.slice(prompt.length));
  }
  return drawn;
}

/** All checks; `scratch` is an empty folder. */
export async function modelChecks(python: string, scratch: string): Promise<Area[]> {
  const cases = FAMILIES.flatMap((family) =>
    [false, true].map((rslora) => {
      const folder = familyPath(family);
      const { vocab_size: vocab } = z
        .looseObject({ vocab_size: z.number() })
        .parse(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')));
      const samples = drawSamples(stream(3, 'conformance', family, String(rslora)), vocab);
      const out = join(scratch, `${family}-${rslora}.safetensors`);
      return { family, folder, rslora, samples, out };
    }),
  );
  const jobs = cases.map(({ folder, rslora, samples, out }) => ({
    folder,
    adapter: `${folder}/adapter`,
    rslora,
    samples,
    temperature: TEMPERATURE,
    entropyCoef: ENTROPY,
    adamw: ADAMW,
    out,
  }));
  const file = join(scratch, 'models.json');
  writeFileSync(file, JSON.stringify(jobs));
  runPython(python, [PROGRAM, file]);
  const areas: Area[] = [];
  for (const family of FAMILIES) {
    const found: Check[] = [];
    for (const { folder, rslora, samples, out } of cases.filter((one) => one.family === family))
      found.push(...(await checkCase(folder, rslora, samples, readSafetensors(out).tensors)));
    areas.push({
      title: `${family}, against transformers and PEFT, LoRA and rsLoRA`,
      checks: worstOf(found),
    });
  }
  return areas;
}

/** Of checks of the same name the one with the largest error. */
function worstOf(checks: readonly Check[]): Check[] {
  const worst = new Map<string, Check>();
  for (const one of checks) {
    const known = worst.get(one.check);
    if (!known || one.error > known.error) worst.set(one.check, one);
  }
  return [...worst.values()];
}

async function checkCase(
  folder: string,
  rslora: boolean,
  samples: Drawn[],
  expected: TensorMap,
): Promise<Check[]> {
  const saved = readAdapter(`${folder}/adapter`);
  const adapter: Adapter = { ...saved, spec: { ...saved.spec, rslora } };
  const lora = adapter.spec;
  const session = await createTrainingSession({ folder, lora, mode: 'lora', gradients: true, threads: 1 });
  try {
    return [
      await vocabularyCheck(session, adapter, samples, expected),
      await decodeCheck(folder, adapter, samples, expected),
      ...(await treeChecks(session, adapter, samples, expected)),
      await adamwCheck(folder, adapter, samples, expected),
    ];
  } finally {
    await session.release();
  }
}

/** Log-probabilities of every token of the vocabulary after every position: logits, but for a constant. */
async function vocabularyCheck(
  session: TrainingSession,
  adapter: Adapter,
  samples: Drawn[],
  expected: TensorMap,
): Promise<Check> {
  let error = 0;
  for (const [i, { ids }] of samples.entries()) {
    const { shape, data } = expected.get(`logprobs.${i}`)!;
    const vocab = shape[1]!;
    const every = Int32Array.from(data, (_, at) => at);
    const batch = {
      ...chainBatch([{ ids }]),
      hiddenIndex: every.map((at) => Math.floor(at / vocab)),
      targetId: every.map((at) => at % vocab),
    };
    const options = { temperature: TEMPERATURE };
    const { rows } = await session.run(batch, adapter.tensors, loraScale(adapter.spec), options);
    error = Math.max(error, maxDifference(rows.logprobs, data));
  }
  return { check: 'log-probabilities of the whole vocabulary', error, tolerance: VALUES };
}

async function decodeCheck(
  folder: string,
  adapter: Adapter,
  samples: Drawn[],
  expected: TensorMap,
): Promise<Check> {
  const session = await createDecodeSession({ folder, lora: adapter.spec, threads: 1 });
  try {
    const got = await forcedLogprobs(session, samples, adapter.tensors, TEMPERATURE);
    const want = samples.map((sample, i) => chosen(sample, expected.get(`logprobs.${i}`)!));
    return {
      check: 'log-probabilities in decoding, token by token',
      error: Math.max(...want.map((values, i) => maxDifference(got[i]!, values))),
      tolerance: VALUES,
    };
  } finally {
    await session.release();
  }
}

/** Values of the sampled tokens, picked from those of the whole vocabulary. */
function chosen(
  { ids, promptLength }: Drawn,
  { shape, data }: { shape: number[]; data: Float32Array },
): number[] {
  return ids.slice(promptLength).map((id, t) => data[(promptLength - 1 + t) * shape[1]! + id]!);
}

const pack = (samples: Drawn[]) => {
  const split = samples.map(({ ids, promptLength }) => ({
    promptIds: ids.slice(0, promptLength),
    outputIds: ids.slice(promptLength),
  }));
  const packed = packSamples(split, { maxTreeTokens: 48, tokensPerPass: 96 });
  const coef = Float32Array.from(samples.flatMap((s) => s.coef));
  const entropy = new Float32Array(coef.length).fill(ENTROPY);
  return { packed, coef, entropy };
};

/** Values and gradients of the samples packed as token trees. */
async function treeChecks(
  session: TrainingSession,
  adapter: Adapter,
  samples: Drawn[],
  expected: TensorMap,
): Promise<Check[]> {
  const { packed, coef, entropy } = pack(samples);
  const got = { logprobs: coef.slice(), entropies: coef.slice() };
  let gradients: TensorMap | null = null;
  for (const pass of packed.passes) {
    const result = await session.run(pass.batch, adapter.tensors, loraScale(adapter.spec), {
      coef: tokensToRows(pass, coef),
      entropyCoef: tokensToRows(pass, entropy),
      temperature: TEMPERATURE,
    });
    rowsToTokens(pass, result.rows.logprobs, got.logprobs);
    rowsToTokens(pass, result.rows.entropies, got.entropies);
    if (gradients) addTensors(gradients, result.gradients!);
    else gradients = result.gradients!;
  }
  const logprobs = samples.flatMap((sample, i) => chosen(sample, expected.get(`logprobs.${i}`)!));
  const entropies = samples.flatMap(({ promptLength }, i) => [
    ...expected.get(`entropies.${i}`)!.data.slice(promptLength - 1, -1),
  ]);
  return [
    {
      check: 'log-probabilities in token trees',
      error: maxDifference(got.logprobs, logprobs),
      tolerance: VALUES,
    },
    { check: 'entropies in token trees', error: maxDifference(got.entropies, entropies), tolerance: VALUES },
    {
      check: `LoRA gradients (${gradients!.size} tensors) in token trees`,
      error: tensorGap(gradients!, named(expected, 'gradient.')),
      tolerance: GRADIENTS,
    },
  ];
}

async function adamwCheck(
  modelFolder: string,
  adapter: Adapter,
  samples: Drawn[],
  expected: TensorMap,
): Promise<Check> {
  const { packed, coef, entropy } = pack(samples);
  const learner = await createCore(
    {
      modelFolder,
      spec: adapter.spec,
      optimizer: { ...ADAMW, clipNorm: 1e9 },
      threads: 1,
      start: { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) },
    },
    onnxExecutor,
  );
  try {
    for (let step = 0; step < ADAMW.steps; step++) {
      for (const pass of packed.passes)
        await learner.accumulate(
          pass.batch,
          tokensToRows(pass, coef),
          tokensToRows(pass, entropy),
          TEMPERATURE,
        );
      await learner.update(ADAMW.learningRate);
    }
    return {
      check: 'adapter after ten steps of AdamW',
      error: tensorGap((await learner.state()).adapter.tensors, named(expected, 'adamw.')),
      tolerance: ADAPTERS,
    };
  } finally {
    await learner.close();
  }
}

/** The tensors whose names begin with `prefix`, without it. */
function named(tensors: TensorMap, prefix: string): TensorMap {
  return new Map(
    [...tensors]
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, t]) => [name.slice(prefix.length), t]),
  );
}
