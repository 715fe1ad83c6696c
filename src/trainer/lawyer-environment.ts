/** Legal-R1 as an environment: the Lawyer over statutes and precedents, its judge, and the composite reward. */
import { messageOf, UserError } from '../base/errors.ts';
import { once } from '../base/once.ts';
import type { Config } from '../config/schema.ts';
import type { Episode } from '../env/episode.ts';
import type { Assistant } from '../env/lawyer/ask.ts';
import type { LawyerConfig } from '../env/lawyer/config.ts';
import { type LawyerTools, runLawyerEpisode } from '../env/lawyer/episode.ts';
import { lexicalIntentReranker, modelIntentReranker } from '../env/lawyer/intent-rerank.ts';
import { modelJudge } from '../env/lawyer/judge.ts';
import { demonstrateLawyer } from '../env/lawyer/oracle.ts';
import { extractiveCondenser, modelCondenser } from '../env/lawyer/precedents/condense.ts';
import type { PrecedentSet } from '../env/lawyer/precedents/precedent-set.ts';
import { createPrecedentSearch } from '../env/lawyer/precedents/search.ts';
import { createStatuteSearch } from '../env/lawyer/statute-search.ts';
import type { Judge } from '../env/lawyer/types.ts';
import { votesJudge } from '../env/lawyer/votes-judge.ts';
import { targetSource } from '../env/malr/demonstration-targets.ts';
import type { Bm25Retriever } from '../env/retrieval/bm25.ts';
import { createLexicalReranker } from '../env/retrieval/lexical-rerank.ts';
import { mineTerms } from '../env/terms.ts';
import type { Query } from '../env/types.ts';
import type { LawyerRewardConfig } from '../reward/lawyer/config.ts';
import { judgeAnswer, needsJudgment, whyJudged } from '../reward/lawyer/judgment.ts';
import { scoreLawyerEpisode } from '../reward/lawyer/ledger.ts';
import { RolloutFailure } from '../rollout/rollout-failure.ts';
import { openAssistant } from './assistants.ts';
import type { Environment, EnvironmentData, EnvironmentOptions } from './environment.ts';
import { bestGoldRanks, firstStage, lexicalStage } from './first-stage.ts';

type LawyerEnv = Extract<Config['env'], { kind: 'lawyer' }>;

/** The settings of an episode. */
export function lawyerConfig({ kind: _, precedents: __, ...settings }: LawyerEnv): LawyerConfig {
  return settings;
}

export function lawyerEnvironment(
  config: Config,
  data: EnvironmentData,
  options: EnvironmentOptions,
): Environment {
  const { env, reward: paid } = config;
  if (env.kind !== 'lawyer' || paid.kind !== 'lawyer')
    throw new Error(`not for ${env.kind} and ${paid.kind}`);
  const { corpus, precedents, references } = data;
  const { say = () => {} } = options;
  const retriever = lexicalStage(config, corpus, options);
  const critic = assistantOf(config, 'critic', say);
  const tools = toolsOf(config, env, data, retriever, say);
  const settings = lawyerConfig(env);
  const { kind: _, articles, tokenAllowance, queryAllowance, ...weights } = paid;
  const reward: LawyerRewardConfig = { articles, tokenAllowance, queryAllowance, weights };
  const source = once(() => targetSource(corpus.byId, mineTerms(corpus.articles)));
  return {
    retriever,
    runEpisode: (query, policy) => runLawyerEpisode(query, tools, policy, settings),
    async score(episode, query) {
      return scoreLawyerEpisode(episode, query, reward, {
        goldRanks: bestGoldRanks(query, statuteQueries(episode), retriever),
        reference: references?.get(query.id) ?? null,
        judgment: await judgmentOf(episode, query, critic),
      });
    },
    demonstrate: (query, { rollout, seed, judged }) =>
      demonstrateLawyer(query, judged ? tools : { ...tools, judge: noJudge }, {
        config: settings,
        source: source(),
        rollout,
        seed,
      }),
    worth: ({ terms }) => terms.find(({ name }) => name === 'answerAccuracy')!.raw,
    standIns: standInNotes(config, tools, precedents),
  };
}

type Say = NonNullable<EnvironmentOptions['say']>;

function toolsOf(
  config: Config,
  env: LawyerEnv,
  data: EnvironmentData,
  retriever: Bm25Retriever,
  say: Say,
): LawyerTools {
  const { corpus, precedents } = data;
  const { k1, b, topK, keep } = config.retrieval;
  const reranker = assistantOf(config, 'reranker', say);
  const condenser = assistantOf(config, 'condenser', say);
  return {
    statutes: createStatuteSearch({
      retriever: firstStage(config, corpus, retriever, say),
      corpus,
      reranker: reranker ? modelIntentReranker(reranker) : lexicalIntentReranker,
      topK,
      keep,
    }),
    precedents: precedents
      ? createPrecedentSearch({
          set: precedents,
          condenser: condenser ? modelCondenser(condenser) : extractiveCondenser,
          k1,
          b,
          ...env.precedents,
        })
      : null,
    judge: judgeOf(assistantOf(config, 'judge', say), data, retriever),
    hasArticle: (id) => corpus.byId.has(id),
  };
}

/** For episodes whose answer nobody reads. */
const noJudge: Judge = {
  name: 'nobody',
  answer: async () => ({ text: '', articles: [], choices: [], number: null }),
};

/** The model of a role; null where its stand-in works. */
function assistantOf(
  config: Config,
  role: 'judge' | 'critic' | 'condenser' | 'reranker',
  say: Say,
): Assistant | null {
  const settings = config.assistants[role];
  if (!settings) return null;
  const { maxTokens, temperature } = settings;
  return { chat: openAssistant(config, role, settings, say), maxTokens, temperature };
}

function judgeOf(
  model: Assistant | null,
  { corpus, precedents }: EnvironmentData,
  retriever: Bm25Retriever,
): Judge {
  if (model) return modelJudge(model);
  const cosine = createLexicalReranker(corpus, retriever.index, { alpha: 0 });
  const applied = new Map<string, number>();
  for (const { articles } of precedents?.cases ?? [])
    for (const id of articles) applied.set(id, (applied.get(id) ?? 0) + 1);
  const all = precedents?.cases.length ?? 1;
  return votesJudge({
    fit: async (question, id) => (await cosine.rerank(question, [{ id, score: 0 }], 1))[0]!.score,
    commonness: (id) => (applied.get(id) ?? 0) / all,
  });
}

const statuteQueries = ({ rounds }: Episode): string[] =>
  rounds.filter(({ agent }) => agent === 'STATUTE').flatMap(({ queries }) => queries);

/** A judge that fails makes a failed trajectory, never a 0. */
async function judgmentOf(episode: Episode, query: Query, critic: Assistant | null) {
  if (!needsJudgment(query) || !episode.answer) return null;
  if (!critic)
    throw new UserError(
      `"${query.id}" ${whyJudged(query)}`,
      'assistants.critic',
      'name a model there, or leave such questions out',
    );
  try {
    return await judgeAnswer(critic, query, episode);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new RolloutFailure('environment', `the critic failed: ${messageOf(error)}`);
  }
}

function standInNotes(
  { assistants }: Config,
  { judge }: LawyerTools,
  precedents: PrecedentSet | undefined,
): string[] {
  const notes: string[] = [];
  if (!assistants.judge)
    notes.push(`no assistants.judge: answers are by ${judge.name}, from statutes and precedents found`);
  if (!assistants.reranker)
    notes.push(
      `no assistants.reranker: statutes are reranked by ${lexicalIntentReranker.name}, by words of the intent`,
    );
  if (precedents && !assistants.condenser)
    notes.push(`no assistants.condenser: precedents are shown as ${extractiveCondenser.name}`);
  if (!assistants.teacher)
    notes.push('no assistants.teacher: demonstrations are by a player that knows the gold (stand-in)');
  return notes;
}
