/** Checks that need no endpoint: the machine, the configuration, data, model, memory, disk and learner. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../base/errors.ts';
import { loadConfig } from '../../config/load.ts';
import { configWarnings, estimateMemory, type MemoryEstimate } from '../../config/plan.ts';
import type { Config } from '../../config/schema.ts';
import { createGraph } from '../../engine/graph.ts';
import { readSafetensorsIndex } from '../../engine/safetensors.ts';
import { buildTrainingGraph, FAST } from '../../engine/training-graph.ts';
import { type Corpus, loadCorpus } from '../../env/corpus.ts';
import { loadQueries } from '../../env/queries.ts';
import type { Query } from '../../env/types.ts';
import { short } from '../../report/text.ts';
import { importedQuestions } from '../../trainer/import-data.ts';
import { corpusChars, memoryText, memoryWarnings } from '../../trainer/memory-plan.ts';
import { checkCritic, dataWarnings, loadModel, type Model, trainingGold } from '../../trainer/prepare.ts';
import { startState } from '../../trainer/start-run.ts';
import type { Passed } from './checklist.ts';

const LEAST_NODE = 20;

/** `version` as in `process.versions.node`. */
export function checkNode(version: string): Passed<null> {
  if (Number.parseInt(version, 10) < LEAST_NODE)
    throw new UserError(`Node ${version} is too old`, undefined, `install Node ${LEAST_NODE} or later`);
  return { value: null, detail: `Node ${version}` };
}

export function checkConfig(file: string, set: readonly string[]): Passed<Config> {
  const config = loadConfig(file, { set });
  const { run, train, rollout } = config;
  return {
    value: config,
    detail: `${run.name}: ${train.steps} steps of ${rollout.queriesPerStep} questions × ${rollout.groupSize} rollouts`,
    warnings: configWarnings(config),
  };
}

export async function checkCorpus({ data }: Config): Promise<Passed<Corpus>> {
  const corpus = await loadCorpus(data.corpus);
  return { value: corpus, detail: `${corpus.articles.length} articles in ${data.corpus}` };
}

/** Where the files are still to be imported, what that would give; nothing is written. */
export async function checkQuestions(
  { data, env, assistants }: Config,
  side: 'train' | 'validation',
  corpus: Corpus,
): Promise<Passed<Query[]>> {
  const file = data[side];
  const imported = await importedQuestions({ data }, corpus);
  if (imported) {
    checkCritic(env, assistants, { [file]: imported[side] });
    return {
      value: imported[side],
      detail: `${imported[side].length} of ${data.import!.from}, imported by the first run`,
    };
  }
  const queries = await loadQueries(file, corpus, side === 'train' ? trainingGold(env) : 'required');
  checkCritic(env, assistants, { [file]: queries });
  return { value: queries, detail: `${queries.length} in ${file}` };
}

/** Questions that stand on both sides. */
export function checkOverlap(train: Query[], validation: Query[]): Passed<null> {
  const warnings = dataWarnings({ train, validation });
  return {
    value: null,
    detail: warnings.length > 0 ? 'some are the same' : 'no held-out question is trained on',
    warnings,
  };
}

/** config.json, tokenizer and chat template; null when the folder is still to be made, as the configuration says. */
export function checkModel({ model, learner }: Config): Passed<Model | null> {
  const { path, build, chatTemplate } = model;
  if (build && !existsSync(join(path, 'config.json')))
    return {
      value: null,
      detail: `${path} is not there yet`,
      warnings: ['the run makes it first; to make it now, lexpo build-model'],
    };
  const read = loadModel(path, chatTemplate);
  const { architecture, layers, hiddenSize, vocabSize, maxPositions } = read.config;
  return {
    value: read,
    detail: `${architecture}, ${layers} layers of ${hiddenSize}, ${vocabSize} tokens, ${maxPositions} positions; tokenizer and chat template fit`,
    warnings:
      learner.maxTreeTokens > maxPositions
        ? [
            `learner.maxTreeTokens ${learner.maxTreeTokens} is more than its ${maxPositions} positions: lower it, or longer calls fail`,
          ]
        : [],
  };
}

/** The adapter that the run starts from: readable, of the model, and of the configured shape. */
export function checkStart(config: Config, model: Model): Passed<null> {
  const { adapter } = startState(config, model.config);
  return { value: null, detail: `${adapter.tensors.size} tensors in ${config.lora.start}` };
}

/** Every file and tensor that config.json asks for is there, in its shape and to its last byte; none too many. */
export function checkWeights(model: Model): Passed<null> {
  const { folder } = model;
  const entries = [...readSafetensorsIndex(folder).values()];
  buildTrainingGraph(createGraph(), { folder, lora: null, mode: 'lora', gradients: false, memory: FAST });
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const files = new Set(entries.map(({ file }) => file)).size;
  const dtypes = [...new Set(entries.map(({ dtype }) => dtype))].join(', ');
  return {
    value: null,
    detail: `${entries.length} tensors in ${files === 1 ? '1 file' : `${files} files`}, ${short(bytes)}B of ${dtypes}`,
  };
}

/**
 * `corpus`: null when it could not be read; it is left out then. `free`: bytes that this process may take. Fails
 * when what cannot be made smaller does not fit.
 */
export function checkMemory(
  config: Config,
  corpus: Corpus | null,
  model: Model,
  free: number,
): Passed<MemoryEstimate> {
  const estimate = estimateMemory(config, model.config, {
    corpusChars: corpus ? corpusChars({ corpus }) : 0,
  });
  const fixed = estimate.weights + estimate.adapter + estimate.data;
  if (fixed > free)
    throw new UserError(
      `weights, adapter and corpus alone need about ${short(fixed)}B, and ${short(free)}B are free`,
      undefined,
      'use a machine with more memory, or a smaller model',
    );
  return {
    value: estimate,
    detail: `${memoryText(estimate)}; ${short(free)}B are free`,
    warnings: memoryWarnings(estimate, free, config.learner.kind),
  };
}
