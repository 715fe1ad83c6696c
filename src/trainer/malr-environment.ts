/** LegalMALR as an environment: planner and rewriters over the corpus, with the reward of the paper. */
import { once } from '../base/once.ts';
import type { Config } from '../config/schema.ts';
import type { Episode } from '../env/episode.ts';
import type { MalrConfig } from '../env/malr/config.ts';
import { demonstrate } from '../env/malr/demonstrate.ts';
import { type MalrTools, runEpisode } from '../env/malr/episode.ts';
import { type Bm25Retriever, createBm25Retriever } from '../env/retrieval/bm25.ts';
import { topHits } from '../env/retrieval/bm25-index.ts';
import { createLexicalReranker } from '../env/retrieval/lexical-rerank.ts';
import { rankPool } from '../env/retrieval/rank-pool.ts';
import { mineTerms } from '../env/terms.ts';
import type { Query } from '../env/types.ts';
import type { RewardConfig } from '../reward/config.ts';
import { type RetrievalFacts, scoreEpisode } from '../reward/ledger.ts';
import type { Environment, EnvironmentData, EnvironmentOptions } from './environment.ts';
import { firstStage } from './first-stage.ts';

const malrConfig = (env: MalrEnv, { retrieval }: Config): MalrConfig => {
  const { kind: _, ...malr } = env;
  return { ...malr, topK: retrieval.topK, keep: retrieval.keep };
};

type MalrEnv = Extract<Config['env'], { kind: 'malr' }>;
export type MalrReward = Extract<Config['reward'], { kind: 'malr' }>;

export const rewardConfig = ({ kind: _, credit: __, recallAt, ...weights }: MalrReward): RewardConfig => ({
  recallAt,
  weights,
});

export function malrEnvironment(
  config: Config,
  { corpus }: EnvironmentData,
  { rewriteWeight, like, say = () => {} }: EnvironmentOptions,
): Environment {
  const { env, reward: paid } = config;
  if (env.kind !== 'malr' || paid.kind !== 'malr') throw new Error(`not for ${env.kind} and ${paid.kind}`);
  const { k1, b, anchor, lawBoost, rerank, keep } = config.retrieval;
  const weights = { ...anchor, ...(rewriteWeight === undefined ? {} : { rewrite: rewriteWeight }) };
  const retriever = createBm25Retriever(corpus, { k1, b, anchor: weights, lawBoost }, like?.retriever.index);
  const tools: MalrTools = {
    retriever: firstStage(config, corpus, retriever, say),
    reranker: createLexicalReranker(corpus, retriever.index, { alpha: rerank.alpha }),
    article: (id) => corpus.byId.get(id),
    rankPool: (searches) => rankPool(searches),
  };
  const terms = once(() => mineTerms(corpus.articles));
  const malr = malrConfig(env, config);
  const reward = rewardConfig(paid);
  return {
    retriever,
    runEpisode: (query, policy) => runEpisode(query, tools, policy, malr),
    score: async (episode, query) =>
      scoreEpisode(episode, query.gold, reward, retrievalFacts(episode, query, retriever, reward, keep)),
    demonstrate: (queries, options) =>
      demonstrate(queries, tools, {
        config: malr,
        articles: corpus.byId,
        terms: terms(),
        ...options,
      }),
    // The player that knows the gold is LegalMALR's own way of a warm start, not in place of a model.
    standIns: [],
    worth: ({ terms }) => terms.find(({ name }) => name === 'recall')!.raw,
  };
}

/** What terms with a weight need of the retrieval: a search again for each, so only then. */
function retrievalFacts(
  episode: Episode,
  query: Query,
  retriever: Bm25Retriever,
  { weights: { marginal, searchRank } }: RewardConfig,
  keep: number,
): RetrievalFacts {
  const request = (rewrite: string) => ({ original: query.query, rewrite });
  const out: RetrievalFacts = {};
  if (marginal !== 0) {
    const hits = topHits(retriever.index, retriever.scores(request(query.query)), keep);
    out.originalIds = hits.map(({ id }) => id);
  }
  if (searchRank !== 0) {
    const searched = [...new Set(episode.rounds.flatMap(({ queries }) => queries))];
    const ranks = searched.map((text) => retriever.ranksOf(request(text), query.gold));
    out.goldRanks = query.gold.map((_, g) =>
      ranks.length === 0 ? null : Math.min(...ranks.map((of) => of[g]!)) - 1,
    );
  }
  return out;
}
