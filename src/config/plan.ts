/** What a run is going to do and to need, counted before it starts: the plan that `--dry-run` prints. */
import type { DecoderConfig } from '../engine/model-config.ts';
import { loraTensorShapes } from '../engine/peft.ts';
import type { Config } from './schema.ts';

/** Sizes of the run's data; `decoder` is null when the model folder is still to be made. */
export interface PlanFacts {
  articles: number;
  /** Characters of the corpus, titles included. */
  corpusChars: number;
  trainQueries: number;
  validationQueries: number;
  decoder: DecoderConfig | null;
}

export interface RunPlan {
  steps: number;
  /** Trajectories: steps × queriesPerStep × groupSize; replacements and refilled groups come on top. */
  rollouts: number;
  /** Passes over the training questions. */
  epochs: number;
  /** Sampled tokens at most: every round used, every call at its limit. */
  rolloutTokens: number;
  /** Episodes of the warm start, played by the demonstrator without the policy. */
  demonstrations: number;
  /** Steps at which the policy is evaluated. */
  evaluations: number[];
  /** Episodes of all evaluations, the final report's included. */
  evaluationEpisodes: number;
  /** Bytes; null while there is no model to measure. */
  memory: MemoryEstimate | null;
}

/** Bytes in RAM, all parts together with learner and policy server in one process. */
export interface MemoryEstimate {
  parameters: number;
  adapterParameters: number;
  weights: number;
  adapter: number;
  activations: number;
  /** Of the embedded server: caches, and the prefill of prompts. */
  serving: number;
  data: number;
  /** What allocators and the garbage collector hold without using it. */
  slack: number;
  total: number;
}

/** Counts a run. Pure; the figures are upper bounds where the policy decides. */
export function planRun(config: Config, facts: PlanFacts): RunPlan {
  const { rollout, env, train, eval: evaluation, sft } = config;
  const rollouts = train.steps * rollout.queriesPerStep * rollout.groupSize;
  const { planner, rewriter, lawyer } = rollout.maxTokens;
  const perEpisode =
    env.kind === 'lawyer'
      ? Math.min(env.maxTurns * lawyer, env.maxPolicyTokens + lawyer)
      : env.maxRounds * (planner + rewriter);
  const evaluations = evaluationSteps(train.steps, train.evalEvery);
  const all = facts.validationQueries;
  const within = Math.min(evaluation.queries ?? all, all);
  const whole = evaluations.filter((step) => step === 0 || step === train.steps).length;
  // The report reads start and result again: sampled, and at every other search weight.
  const { samples, anchorSweep } = evaluation;
  const report = (2 * samples + (2 + samples) * anchorSweep.length) * all;
  return {
    steps: train.steps,
    rollouts,
    epochs: (train.steps * rollout.queriesPerStep) / facts.trainQueries,
    rolloutTokens: rollouts * perEpisode,
    demonstrations: sft ? Math.ceil(facts.trainQueries * sft.share) * sft.rolloutsPerQuery : 0,
    evaluations,
    evaluationEpisodes: whole * all + (evaluations.length - whole) * within + report,
    memory: facts.decoder && estimateMemory(config, facts.decoder, facts),
  };
}

/** Step 0, every `every` steps, and the last: each once. */
export function evaluationSteps(steps: number, every: number): number[] {
  const out = [0];
  for (let step = every; step < steps; step += every) out.push(step);
  return steps > 0 ? [...out, steps] : out;
}

/** Weights of a decoder, the embedding counted once when it is tied. */
export function parameterCount(decoder: DecoderConfig): number {
  const { hiddenSize: d, heads, kvHeads, headDim, intermediateSize, layers, vocabSize } = decoder;
  const [q, kv] = [heads * headDim, kvHeads * headDim];
  const attention = 2 * d * q + 2 * d * kv + (decoder.qkNorm ? 2 * headDim : 0);
  const attentionBias = (decoder.qkvBias ? q + 2 * kv : 0) + (decoder.outputBias ? d : 0);
  const mlpBias = decoder.mlpBias ? 2 * intermediateSize + d : 0;
  const layer = attention + attentionBias + mlpBias + 3 * d * intermediateSize + 2 * d;
  return layers * layer + d + vocabSize * d * (decoder.tieWordEmbeddings ? 1 : 2);
}

/** The graphs that hold the weights as f32: training and scoring; with an adapter and without one. */
const LEARNER_GRAPHS = 2;
const SERVER_GRAPHS = 2;
/** Node, onnxruntime and the program itself. */
const PROGRAM_BYTES = 250e6;
/** The searchable corpus: texts, postings and vocabulary, for a character of text. */
const BYTES_PER_CHAR = 70;
/** Limits of the embedded server (serve/server.ts). */
const SERVER = { rows: 256, cacheBytes: 2 ** 30, promptCacheBytes: 2 ** 26, prefillTokens: 8192 };
/** What whole runs held at their peak beyond the parts, as a share of them: 19 to 26 % in three long runs. */
const SLACK = 0.22;
/** Share of a pass's positions that carry loss: sampled tokens against prompts. */
const ROW_SHARE = 0.5;

/**
 * Estimate of the memory at its peak, in bytes:
 *
 *   weights      4 graphs × parameters × 4 (files of f32 are mapped: their pages are counted by graph, and shared)
 *   adapter      parameters of the adapter × 4 × (itself, reference, gradient, 2 moments, 2 served versions)
 *   activations  tokensPerPass × 4 × [ layers × layer + (layers + 2.5) × heads × maxTreeTokens + head ]
 *                recomputed: tokensPerPass × 4 × [ layers × d + 1.5 × layer + 4.5 × heads × maxTreeTokens + 0.4 × head ]
 *                with layer = 5 d + 6 q + 5 kv + 4 f and head = 4 × vocabulary × ½ / rowChunks
 *                scoring: tokensPerPass × 4 × [ 0.6 × layer + heads × maxTreeTokens + ½ × head ] beside it
 *   serving      keys and values of the sequences under way, cached prompts, and twice what a prefill needs
 *   data         the program, and 70 bytes a character of the corpus
 *   slack        22 % of all that
 *
 * with d hidden, q and kv the widths of queries and keys, f intermediate. What one position keeps for the
 * backward pass was counted in the graph, and held against the measured peak of several shapes: within 15 %,
 * recomputed within 20 %; whole runs within 3 %. Processes of `torch` hold the weights once more each, in
 * their dtype; activations are reckoned as here, for one process.
 */
export function estimateMemory(
  config: Config,
  decoder: DecoderConfig,
  facts: Pick<PlanFacts, 'corpusChars'>,
): MemoryEstimate {
  const parameters = parameterCount(decoder);
  const shapes = [...loraTensorShapes(decoder, config.lora).values()];
  const adapterParameters = shapes.reduce((sum, [rows, columns]) => sum + rows * columns, 0);
  const weights = parameters * weightBytes(config);
  const adapter = adapterParameters * 4 * 7;
  const perPosition = floatsPerPosition(config, decoder) + floatsToScore(config, decoder);
  const activations = config.learner.tokensPerPass * 4 * perPosition;
  const serving = servingBytes(config, decoder);
  const data = PROGRAM_BYTES + BYTES_PER_CHAR * facts.corpusChars;
  const parts = weights + adapter + activations + serving + data;
  const slack = SLACK * parts;
  const total = parts + slack;
  return { parameters, adapterParameters, weights, adapter, activations, serving, data, slack, total };
}

/** What one layer computes for a position, attention scores left out. */
function layerFloats({ hiddenSize, heads, kvHeads, headDim, intermediateSize }: DecoderConfig): number {
  return 5 * hiddenSize + 6 * heads * headDim + 5 * kvHeads * headDim + 4 * intermediateSize;
}

function floatsToScore({ learner }: Pick<Config, 'learner'>, decoder: DecoderConfig): number {
  const head = (2 * decoder.vocabSize * ROW_SHARE) / memoryOf(learner).rowChunks;
  return 0.6 * layerFloats(decoder) + decoder.heads * learner.maxTreeTokens + head;
}

function servingBytes({ learner, rollout, endpoint }: Config, decoder: DecoderConfig): number {
  if (endpoint.kind !== 'embedded') return 0;
  const { layers, kvHeads, headDim, heads } = decoder;
  const keysAndValues = 2 * layers * kvHeads * headDim * 4;
  const rows = Math.min(SERVER.rows, rollout.concurrency);
  const cache = Math.min(SERVER.cacheBytes, rows * learner.maxTreeTokens * keysAndValues);
  const prefill = SERVER.prefillTokens * 4 * (0.6 * layerFloats(decoder) + heads * 64);
  return cache + SERVER.promptCacheBytes + 2 * prefill;
}

/** f32 values that a position of a pass keeps until its gradient is done. */
export function floatsPerPosition(
  config: Pick<Config, 'learner'>,
  decoder: DecoderConfig,
  rowShare = ROW_SHARE,
): number {
  const { hiddenSize, heads, layers, vocabSize } = decoder;
  const { recompute, rowChunks } = memoryOf(config.learner);
  const layer = layerFloats(decoder);
  const scores = heads * config.learner.maxTreeTokens;
  const head = (4 * vocabSize * rowShare) / rowChunks;
  return recompute
    ? layers * hiddenSize + 1.5 * layer + 4.5 * scores + 0.4 * head
    : layers * layer + (layers + 2.5) * scores + head;
}

/** What the learner does to save memory. */
const memoryOf = (learner: Config['learner']) =>
  learner.kind === 'torch' ? { recompute: learner.gradientCheckpointing, rowChunks: 1 } : learner.memory;

/** Bytes for a parameter of the base model, all copies in this process together. */
function weightBytes({ learner, endpoint }: Pick<Config, 'learner' | 'endpoint'>): number {
  const server = endpoint.kind === 'embedded' ? 4 * SERVER_GRAPHS : 0;
  return learner.kind === 'torch'
    ? server + learner.processes * (learner.dtype === 'float32' ? 4 : 2)
    : server + 4 * LEARNER_GRAPHS;
}

/** What is allowed, but probably not meant: one sentence each. */
export function configWarnings(config: Config, facts?: Pick<PlanFacts, 'trainQueries'>): string[] {
  const { endpoint, optimizer, train, rollout, loss } = config;
  const warnings: string[] = [];
  if (optimizer.learningRate < 1e-6)
    warnings.push(`optimizer.learningRate ${optimizer.learningRate}: LoRA learns next to nothing below 1e-6`);
  if (train.steps > 0 && optimizer.warmupSteps >= train.steps)
    warnings.push(
      `optimizer.warmupSteps ${optimizer.warmupSteps} is not over before the last of ${train.steps} steps`,
    );
  if (loss.epochs > 1 && loss.kind === 'reinforce')
    warnings.push(
      'loss.epochs above 1 with loss.kind reinforce: nothing bounds how far the policy moves in a step',
    );
  if (rollout.topP < 1 || rollout.topK > 0)
    warnings.push(
      loss.importance.mode === 'none'
        ? 'rollout.topP or topK with loss.importance.mode none: the loss takes what was kept for all of the distribution, and so makes likely tokens likelier'
        : 'rollout.topP or topK: a token counts by the mass that was kept where it was sampled, and what was cut off teaches nothing; policy/mismatch holds −ln of that mass, so with topK loss.importance.alarm may have to be wider',
    );
  if (train.maxStaleness > 0 && endpoint.kind === 'vllm')
    warnings.push(
      `train.maxStaleness ${train.maxStaleness}: ${train.maxStaleness + 2} adapters are asked at once while one is published; servers started with a lower --max-loras let their calls wait for each other, and with a lower --max-cpu-loras read adapters from disk again and again`,
    );
  if (facts && rollout.queriesPerStep > facts.trainQueries)
    warnings.push(
      `rollout.queriesPerStep ${rollout.queriesPerStep}: there are ${facts.trainQueries} training questions, so a step repeats some`,
    );
  return warnings;
}
