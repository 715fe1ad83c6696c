/**
 * Makes a small base model:
 *
 *   tsx scripts/build-base-model.ts --corpus statutes.jsonl[.gz] [--queries train.jsonl] --out folder
 *     --size tiny|small --tokens N [--tokens-per-step N] [--learning-rate X] [--threads N] [--seed S]
 */
import { Command, InvalidArgumentError, Option } from 'commander';
import { UserError } from '../src/base/errors.ts';
import { loadCorpus } from '../src/env/corpus.ts';
import { loadQueries } from '../src/env/queries.ts';
import { buildBaseModel, type ModelSize } from '../src/trainer/build-base-model.ts';

interface Arguments {
  corpus: string;
  queries?: string;
  out: string;
  size: ModelSize;
  tokens: number;
  tokensPerStep?: number;
  learningRate?: number;
  threads: number;
  seed: number;
}

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('It must be a number above 0.');
  return value;
}

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw new InvalidArgumentError('It must be a whole number.');
  return value;
}

const program = new Command('build-base-model')
  .description('Makes a small Qwen3-shaped base model and pretrains it on a corpus of statutes.')
  .requiredOption('--corpus <file>', 'statutes, JSON lines, plain or gzip')
  .option('--queries <file>', 'training questions: their laws are read more often')
  .requiredOption('--out <folder>', 'the model folder to make')
  .addOption(new Option('--size <size>').choices(['tiny', 'small']).default('tiny'))
  .option('--tokens <n>', 'pretraining tokens; 0 leaves the weights random', whole, 1_500_000)
  .option('--tokens-per-step <n>', 'input tokens of one update', positive)
  .option('--learning-rate <x>', 'highest learning rate', positive)
  .option('--threads <n>', 'threads', positive, 2)
  .option('--seed <n>', 'seed of every random stream', whole, 1);

try {
  const { corpus: corpusFile, queries: queriesFile, out, ...rest } = program.parse().opts<Arguments>();
  const corpus = await loadCorpus(corpusFile);
  const queries = queriesFile === undefined ? [] : await loadQueries(queriesFile, corpus);
  await buildBaseModel({ articles: corpus.articles, queries, folder: out, ...rest, log: console.log });
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
