import { expect, test } from 'vitest';
import type { DecoderConfig } from '../engine/model-config.ts';
import { parseConfig } from './load.ts';
import {
  configWarnings,
  estimateMemory,
  evaluationSteps,
  floatsPerPosition,
  parameterCount,
  planRun,
} from './plan.ts';

const YAML =
  'run: {name: x}\nmodel: {path: m}\ndata: {corpus: c, train: t, validation: v}\ntrain: {steps: 25}\n';
const config = (...set: string[]) => parseConfig(YAML, 'x.yaml', { set });

const DECODER: DecoderConfig = {
  architecture: 'qwen3',
  vocabSize: 2048,
  hiddenSize: 256,
  layers: 4,
  heads: 4,
  kvHeads: 2,
  headDim: 64,
  intermediateSize: 768,
  rmsNormEps: 1e-6,
  rope: { theta: 10_000, scaling: null },
  tieWordEmbeddings: true,
  qkNorm: true,
  qkvBias: false,
  outputBias: false,
  mlpBias: false,
  maxPositions: 1024,
  eosTokenIds: [0],
};
const FACTS = { articles: 10, corpusChars: 1000, trainQueries: 200, validationQueries: 60, decoder: null };

test('steps, rollouts and tokens are products; nothing has to divide anything', () => {
  const plan = planRun(
    config('rollout.queriesPerStep=7', 'rollout.groupSize=5', 'rollout.minGroup=2'),
    FACTS,
  );
  expect(plan.rollouts).toBe(25 * 7 * 5);
  // 4 rounds of a planner call (16) and a rewriter call (64).
  expect(plan.rolloutTokens).toBe(875 * 4 * 80);
  expect(plan.epochs).toBeCloseTo(0.875);
  expect(plan.demonstrations).toBe(0);
  expect(plan.memory).toBeNull();
});

test('evaluations: step 0, every N, the last, each once', () => {
  expect(evaluationSteps(25, 10)).toEqual([0, 10, 20, 25]);
  expect(evaluationSteps(20, 10)).toEqual([0, 10, 20]);
  expect(evaluationSteps(3, 10)).toEqual([0, 3]);
  expect(evaluationSteps(0, 10)).toEqual([0]);
});

test('evaluation episodes: all questions at the ends, a selection between, the report on top', () => {
  expect(planRun(config(), FACTS).evaluationEpisodes).toBe(4 * 60);
  expect(planRun(config('eval.queries=20'), FACTS).evaluationEpisodes).toBe(60 + 20 + 20 + 60);
  expect(planRun(config('eval.queries=500'), FACTS).evaluationEpisodes).toBe(4 * 60);
  const report = config('eval.samples=2', 'eval.anchorSweep=[0.25, 1, 2]');
  expect(planRun(report, FACTS).evaluationEpisodes).toBe(4 * 60 + (2 * 2 + 3 * (2 + 2)) * 60);
});

test('the demonstrator plays its share of the questions', () => {
  expect(planRun(config('sft={share: 0.301, rolloutsPerQuery: 3}'), FACTS).demonstrations).toBe(61 * 3);
});

test('parameters are counted as in the model files', () => {
  // Embedding 2048·256; a layer: q, o 256·256, k, v 128·256, norms 2·64 + 2·256, MLP 3·256·768; final norm 256.
  const layer = 2 * 65_536 + 2 * 32_768 + 128 + 512 + 589_824;
  expect(parameterCount(DECODER)).toBe(524_288 + 4 * layer + 256);
  expect(parameterCount({ ...DECODER, tieWordEmbeddings: false }) - parameterCount(DECODER)).toBe(524_288);
  // Qwen3-0.6B as published: 28 layers, 596,049,920 parameters with tied embeddings.
  const published = { vocabSize: 151_936, hiddenSize: 1024, layers: 28, heads: 16, kvHeads: 8, headDim: 128 };
  expect(parameterCount({ ...DECODER, ...published, intermediateSize: 3072 })).toBe(596_049_920);
});

test('the memory of activations agrees with measured peaks', () => {
  // Extra resident memory of one training pass, bytes, measured on Linux with onnxruntime 1.30.
  const small = DECODER;
  const tiny = { ...DECODER, hiddenSize: 128, headDim: 32, intermediateSize: 384 };
  const deep = { ...DECODER, vocabSize: 8000, hiddenSize: 384, layers: 12, heads: 6, intermediateSize: 1152 };
  type Memory = { recompute: boolean; rowChunks: number };
  const fast = { recompute: false, rowChunks: 1 };
  const again = (rowChunks: number): Memory => ({ recompute: true, rowChunks });
  const measured: [DecoderConfig, tokens: number, tree: number, share: number, Memory, megabytes: number][] =
    [
      [small, 2048, 1024, 0.25, fast, 431],
      [small, 4096, 1024, 0.25, fast, 843],
      [small, 4096, 128, 0.25, fast, 454],
      [small, 4096, 128, 0.75, fast, 570],
      [tiny, 4096, 1024, 0.25, fast, 654],
      [deep, 2048, 256, 0.5, fast, 1160],
      [deep, 2048, 256, 0.5, { recompute: false, rowChunks: 4 }, 1044],
      [deep, 2048, 256, 0.5, again(1), 256],
      [deep, 2048, 256, 0.5, again(4), 206],
      [small, 4096, 256, 0.5, again(1), 288],
      [small, 4096, 1024, 0.5, again(4), 494],
    ];
  for (const [decoder, tokens, tree, share, memory, megabytes] of measured) {
    const { learner: onnx } = config();
    if (onnx.kind !== 'onnx') throw new Error('the default learner is onnx');
    const learner = { ...onnx, maxTreeTokens: tree, memory };
    const bytes = 4 * tokens * floatsPerPosition({ learner }, decoder, share);
    const within = memory.recompute ? 0.2 : 0.15;
    expect(Math.abs(bytes / (megabytes * 1e6) - 1)).toBeLessThan(within);
  }
});

test('torch: the weights once a process, in its dtype, and twice in the embedded server', () => {
  const per = (...set: string[]) =>
    estimateMemory(config('learner.kind=torch', ...set), DECODER, FACTS).weights / parameterCount(DECODER);
  expect(per()).toBe(2 * 4 + 4);
  expect(per('learner.processes=3', 'learner.dtype=bfloat16')).toBe(2 * 4 + 3 * 2);
});

test('the parts of the estimate add up, and the adapter is counted from its tensors', () => {
  const memory = estimateMemory(config('lora.r=8', 'lora.targets=[q_proj, down_proj]'), DECODER, FACTS);
  expect(memory.adapterParameters).toBe(4 * 8 * (256 + 256 + 768 + 256));
  expect(memory.adapter).toBe(memory.adapterParameters * 28);
  const { weights, adapter, activations, serving, data, slack } = memory;
  const parts = weights + adapter + activations + serving + data;
  expect(slack / parts).toBeCloseTo(0.22);
  expect(memory.total).toBe(parts + slack);
});

test('what is allowed but hardly meant is said', () => {
  expect(configWarnings(config())).toEqual([]);
  expect(configWarnings(config('optimizer.learningRate=5e-7'))[0]).toMatch(/5e-7.*next to nothing/);
  expect(configWarnings(config('train.steps=5'))[0]).toMatch(/warmupSteps 8/);
  expect(configWarnings(config('train.steps=0'))).toEqual([]);
  expect(configWarnings(config('loss.kind=reinforce', 'loss.epochs=2'))[0]).toMatch(/reinforce/);
  expect(configWarnings(config('rollout.topP=0.9', 'loss.importance.mode=none'))[0]).toMatch(/likelier/);
  expect(configWarnings(config('rollout.topK=5', 'loss.importance.level=token'))[0]).toMatch(/mass.*alarm/);
  expect(configWarnings(config('train.maxStaleness=1'))).toEqual([]);
  const servers = 'endpoint={kind: vllm, replicas: [{url: "http://gpu:8000"}]}';
  expect(configWarnings(config('train.maxStaleness=1', servers))[0]).toMatch(/3 adapters.*--max-loras/);
  expect(configWarnings(config(), { trainQueries: 5 })[0]).toMatch(/5 training questions/);
});
