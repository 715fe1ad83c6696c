/** LegalMALR as an environment: planner and rewriters over the corpus, with the reward of the paper. */
import { once } from '../base/once.ts';
import type { Config } from '../config/schema.ts';
import type { Episode } from '../env/episode.ts';
import type { MalrConfig } from '../env/malr/config.ts';
import { demonstrate } from '../env/malr/demonstrate.ts';
import { targetSource } from '../env/malr/demonstration-targets.ts';
import { type MalrTools, runEpisode } from '../env/malr/episode.ts';
import type { Bm25Retriever } from '../env/retrieval/bm25.ts';
import { topHits } from '../env/retrieval/bm25-index.ts';
import { createLexicalReranker } from '../env/retrieval/lexical-rerank.ts';
import { rankPool } from '../env/retrieval/rank-pool.ts';
import { mineTerms } from '../env/terms.ts';
import type { Query } from '../env/types.ts';
import type { RewardConfig } from '../reward/config.ts';
import { type RetrievalFacts, scoreEpisode } from '../reward/ledger.ts';
import type { Environment, EnvironmentData, EnvironmentOptions } from './environment.ts';
import { bestGoldRanks, firstStage, lexicalStage } from './first-stage.ts';

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
  options: EnvironmentOptions,
): Environment {
  const { env, reward: paid } = config;
  if (env.kind !== 'malr' || paid.kind !== 'malr') throw new Error(`not for ${env.kind} and ${paid.kind}`);
  const { rerank, keep } = config.retrieval;
  const { say = () => {} } = options;
  const retriever = lexicalStage(config, corpus, options);
  const tools: MalrTools = {
    retriever: firstStage(config, corpus, retriever, say),
    reranker: createLexicalReranker(corpus, retriever.index, { alpha: rerank.alpha }),
    article: (id) => corpus.byId.get(id),
    rankPool: (searches) => rankPool(searches),
  };
  const source = once(() => targetSource(corpus.byId, mineTerms(corpus.articles)));
  const malr = malrConfig(env, config);
  const reward = rewardConfig(paid);
  return {
    retriever,
    runEpisode: (query, policy) => runEpisode(query, tools, policy, malr),
    score: async (episode, query) =>
      scoreEpisode(episode, query.gold, reward, retrievalFacts(episode, query, retriever, reward, keep)),
    demonstrate: (query, { rollout, seed }) =>
      demonstrate(query, tools, { config: malr, source: source(), rollout, seed }),
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
  const out: RetrievalFacts = {};
  if (marginal !== 0) {
    const hits = topHits(
      retriever.index,
      retriever.scores({ original: query.query, rewrite: query.query }),
      keep,
    );
    out.originalIds = hits.map(({ id }) => id);
  }
  if (searchRank !== 0) {
    const searches = episode.rounds.flatMap(({ queries }) => queries);
    out.goldRanks = bestGoldRanks(query, searches, retriever);
  }
  return out;
}
