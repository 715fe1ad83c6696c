/** From a resolved configuration to the parts that a run, an evaluation or a single rollout works with. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../base/errors.ts';
import { shortHash } from '../base/hash.ts';
import type { Config } from '../config/schema.ts';
import { type DecoderConfig, readDecoderConfig } from '../engine/model-config.ts';
import { type Corpus, loadCorpus } from '../env/corpus.ts';
import { loadPrecedents, type PrecedentSet } from '../env/lawyer/precedents/precedent-set.ts';
import { chargesOf } from '../env/lawyer/precedents/search.ts';
import { type GoldRule, loadQueries, wordsOf } from '../env/queries.ts';
import type { Message, Query } from '../env/types.ts';
import type { Reference } from '../reward/lawyer/alignment.ts';
import { needsJudgment, whyJudged } from '../reward/lawyer/judgment.ts';
import {
  endOfTurn,
  loadChatTemplate,
  renderPromptIds,
  type TemplateKwargs,
} from '../rollout/chat-template.ts';
import type { Endpoint } from '../rollout/endpoint.ts';
import type { RolloutContext, Sampling } from '../rollout/roll-out.ts';
import { loadTokenizer, type TextTokenizer } from '../rollout/tokenizer.ts';
import { buildBaseModel } from './build-base-model.ts';
import type { Environment } from './environment.ts';
import { ensureQuestions } from './import-data.ts';
import { lawyerConfig } from './lawyer-environment.ts';
import { sharedSettings } from './same-run.ts';
import { readDemonstrations, referencesOf } from './sft/demonstration-file.ts';

export interface Data {
  corpus: Corpus;
  precedents?: PrecedentSet | undefined;
  references?: ReadonlyMap<string, Reference> | undefined;
  train: Query[];
  validation: Query[];
}

export interface Model {
  folder: string;
  config: DecoderConfig;
  tokenizer: TextTokenizer;
  endId: number;
  renderPrompt(messages: Message[]): number[];
}

/**
 * Hash of all that a resumed run must share with the one it goes on from: configuration, corpus, questions
 * and the weights of the base model.
 * What it may change is left out: `same-run.ts`.
 */
export function configHash(
  config: Config,
  { corpus, precedents, references, train, validation }: Data,
  weights: string,
): string {
  const more = [precedents?.hash, references && [...references]].filter((one) => one !== undefined);
  return shortHash([[...sharedSettings(config)], corpus.hash, train, validation, weights, ...more]);
}

/** Sampling as in training, for episodes that nothing is learnt from. */
export const evalSampling = ({ rollout }: Config): Sampling => ({
  temperature: rollout.temperature,
  topP: rollout.topP,
  topK: rollout.topK,
  maxTokens: rollout.maxTokens,
  maxAttempts: rollout.maxAttempts,
});

/** A call that the learner has no room for must fail its rollout, not the step. */
export const trainSampling = (config: Config): Sampling => ({
  ...evalSampling(config),
  maxCallTokens: config.learner.maxTreeTokens,
});

export const greedySampling = (config: Config): Sampling => {
  const { topP: _, topK: __, ...sampling } = evalSampling(config);
  return { ...sampling, temperature: 0 };
};

/** Reads corpus, precedents and questions, which are imported first where that is to be done; all their mistakes are UserErrors. */
export async function loadData(
  { data, sft, env, assistants }: Pick<Config, 'data' | 'sft' | 'env' | 'assistants'>,
  say: (line: string) => void = () => {},
): Promise<Data> {
  const corpus = await loadCorpus(data.corpus);
  await ensureQuestions({ data }, corpus, say);
  const train = await loadQueries(data.train, corpus, trainingGold(env));
  const validation = await loadQueries(data.validation, corpus);
  checkCritic(env, assistants, { [data.train]: train, [data.validation]: validation });
  return {
    corpus,
    ...(data.precedents === undefined ? {} : { precedents: await loadPrecedents(data.precedents) }),
    ...(sft?.demonstrations !== undefined && env.kind === 'lawyer'
      ? { references: referencesOf(await readDemonstrations(sft.demonstrations)) }
      : {}),
    train,
    validation,
  };
}

/** Held-out questions always need gold: ranking and evidence recall are measured by it. */
export const trainingGold = ({ kind }: Pick<Config['env'], 'kind'>): GoldRule =>
  kind === 'lawyer' ? 'optional' : 'required';

/** UserError for questions, by file, that only a model can score, where none is named. */
export function checkCritic(
  env: Pick<Config['env'], 'kind'>,
  { critic }: Pick<Config['assistants'], 'critic'>,
  files: Record<string, readonly Query[]>,
): void {
  if (env.kind !== 'lawyer' || critic) return;
  for (const [file, queries] of Object.entries(files)) {
    const [first, ...more] = queries.filter(needsJudgment);
    if (first)
      throw new UserError(
        `"${first.id}" ${whyJudged(first)}${more.length > 0 ? `; and ${more.length} more` : ''}`,
        file,
        'name a model in assistants.critic, or leave such questions out',
      );
  }
}

/** What looks like a mistake in the data and may be meant: held-out questions that are trained on, word for word. */
export function dataWarnings({ train, validation }: Pick<Data, 'train' | 'validation'>): string[] {
  const trained = new Map(train.map(({ id, query }) => [wordsOf(query), id]));
  const shared = validation.filter(({ query }) => trained.has(wordsOf(query)));
  const [first] = shared;
  if (!first) return [];
  return [
    `${shared.length} of ${validation.length} held-out questions are training questions too ` +
      `("${first.id}" is "${trained.get(wordsOf(first.query))}"): the held-out figures do not show what is new to the policy`,
  ];
}

/** The base model's folder, made first when it is absent and the configuration says how. */
export async function ensureModel(config: Config, data: Data, log: (line: string) => void): Promise<Model> {
  const { path, build, chatTemplate } = config.model;
  if (!existsSync(join(path, 'config.json')) && build) {
    log(
      `no model at ${path}: making a ${build.size} base model from ${config.data.corpus} (not part of the run's time)`,
    );
    await buildBaseModel({
      articles: data.corpus.articles,
      queries: data.train,
      folder: path,
      size: build.size,
      tokens: build.tokens,
      learningRate: build.learningRate,
      threads: config.learner.threads,
      seed: build.seed,
      lawyer:
        config.env.kind === 'lawyer'
          ? {
              config: lawyerConfig(config.env),
              facts: (data.precedents?.cases ?? []).map(({ fact }) => fact),
              charges: [...new Set((data.precedents?.cases ?? []).flatMap(chargesOf))].map((charge) =>
                charge.replace(/罪$/u, ''),
              ),
            }
          : null,
      log,
    });
  }
  return loadModel(path, chatTemplate);
}

/** Throws unless the tokenizer can be the model's: its ids have a row in the embedding, its end tokens are control tokens. */
function checkTokenizer(folder: string, config: DecoderConfig, tokenizer: TextTokenizer): void {
  const fail = (what: string): never => {
    throw new UserError(
      what,
      join(folder, 'tokenizer.json'),
      'take config.json, generation_config.json and tokenizer.json of the same model',
    );
  };
  const { vocabSize, controlTokens } = tokenizer;
  if (vocabSize > config.vocabSize)
    fail(`has ids up to ${vocabSize - 1}, config.json has a vocab_size of ${config.vocabSize}`);
  for (const id of config.eosTokenIds)
    if (!controlTokens.some((token) => token.id === id)) {
      const text = tokenizer.decode([id], { skipSpecial: false });
      fail(
        `eos_token_id ${id} is ${text === '' ? 'no token of it' : `the text '${text}', no control token`}`,
      );
    }
}

/** Reads what is needed of a model folder besides its weights; `kwargs` are its chat template's. */
export function loadModel(folder: string, kwargs: TemplateKwargs = {}): Model {
  const config = readDecoderConfig(folder);
  const tokenizer = loadTokenizer(folder);
  const template = loadChatTemplate(folder, kwargs);
  checkTokenizer(folder, config, tokenizer);
  const endId = endOfTurn(template, tokenizer, config.eosTokenIds);
  return {
    folder: resolve(folder),
    config,
    tokenizer,
    endId,
    renderPrompt: (messages) => renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true }),
  };
}

/** Ids of a fixed prompt that every proof of publication is asked on: the start of the first held-out question. */
export function probeIds(model: Pick<Model, 'renderPrompt'>, data: Pick<Data, 'validation'>): number[] {
  const messages = [{ role: 'user' as const, content: data.validation[0]!.query }];
  return model.renderPrompt(messages).slice(0, 48);
}

/** The rollout context of a run in this environment. */
export function rolloutContext(
  config: Config,
  model: Model,
  { runEpisode, score }: Environment,
  endpoint: Pick<Endpoint, 'complete'>,
): RolloutContext {
  return {
    runId: config.run.name,
    seed: config.run.seed,
    endpoint,
    renderPrompt: model.renderPrompt,
    stopTokenIds: model.config.eosTokenIds,
    runEpisode,
    score,
    now: () => performance.now(),
  };
}
