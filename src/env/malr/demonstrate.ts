/**
 * Demonstrations for the supervised warm start: real episodes, played by a teacher that knows the gold.
 *
 * Its rewrites are what a good call would say (demonstration-targets.ts); its planning is a mixture that
 * leaves room to learn: every action has some chance, decomposition more with several golds, and ending
 * becomes likelier as the pool covers the gold. It never ends with an empty pool.
 */
import { type Random, stream } from '../../base/random.ts';
import { type DemonstratedEpisode, recordedPolicy } from '../demonstration.ts';
import { lawKind, lawOf } from '../law-name.ts';
import type { Article, Query, Reranker } from '../types.ts';
import { type Action, offeredActions } from './agents.ts';
import type { MalrConfig } from './config.ts';
import { decomposeTarget, rewriteTarget, supportTarget, type TargetSource } from './demonstration-targets.ts';
import { type MalrTools, runEpisode } from './episode.ts';

export interface PlayerInput {
  query: Query;
  source: TargetSource;
  random: Random;
  /** Actions that the planner may choose. */
  offered: readonly Action[];
}

export interface PlayerCall {
  role: string;
  round: number;
  /** Articles found so far. */
  pool: ReadonlySet<string>;
}

/**
 * The teacher for one episode: call by call the text that a good policy would write. Draws from `random`
 * in call order. Throws for a gold id that the corpus lacks and for an unknown role.
 */
export function demonstrationPolicy(input: PlayerInput): (call: PlayerCall) => string {
  const { query, source, random } = input;
  const golds = query.gold.map((id) => {
    const gold = source.articles.get(id);
    if (gold === undefined) throw new Error(`gold article ${id} of ${query.id} is not in the corpus`);
    return gold;
  });
  const ran: Action[] = [];
  return ({ role, round, pool }) => {
    // A gold that is still missing is worth more than one already found.
    const missing = golds.filter((gold) => !pool.has(gold.id));
    const wanted = missing.length > 0 ? missing : golds;
    const one = (): Article => wanted[random.int(wanted.length)]!;
    switch (role) {
      case 'planner': {
        const coverage = 1 - missing.length / golds.length;
        const action = planAction(
          { golds, ran, round, coverage, poolSize: pool.size },
          input.offered,
          random,
        );
        ran.push(action);
        return JSON.stringify({ action });
      }
      case 'rewrite_single':
      case 'rewrite_supplement':
      case 'repair':
        return rewriteTarget(role, one(), query.query, source, random);
      case 'decompose':
        return decomposeTarget(wanted, query.query, source, random);
      case 'supportive_law':
        return supportTarget(wanted, query.query, source, random);
      default:
        throw new Error(`no demonstration for the role ${role}`);
    }
  };
}

export interface PlanState {
  golds: readonly Article[];
  /** What ran so far. */
  ran: readonly Action[];
  /** From 0. */
  round: number;
  /** Share of the gold in the pool, [0, 1]. */
  coverage: number;
  poolSize: number;
}

/** The teacher's choice: a draw from the mixture described above, among the actions on offer. */
export function planAction(state: PlanState, offered: readonly Action[], random: Random): Action {
  const weights = actionWeights(state);
  const total = offered.reduce((sum, action) => sum + weights[action], 0);
  let left = random.next() * total;
  for (const action of offered) {
    left -= weights[action];
    if (left < 0) return action;
  }
  return offered.find((action) => weights[action] > 0)!;
}

/** Relative chances of the actions; an action that ran before is ten times less likely. */
function actionWeights({ golds, ran, round, coverage, poolSize }: PlanState): Record<Action, number> {
  const supported = golds.some((gold) => lawKind(lawOf(gold)) !== 'other');
  const weights: Record<Action, number> = {
    rewrite_single: 3,
    rewrite_supplement: 2,
    decompose: golds.length > 1 ? 4 : 1,
    supportive_law: supported ? 3 : 1,
    repair: 1,
    original: 1,
    terminate: 0,
  };
  for (const action of new Set(ran)) weights[action] /= 10;
  const others = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
  const end = poolSize === 0 ? 0 : Math.min(0.95, 0.1 + 0.1 * round + 0.6 * coverage);
  return { ...weights, terminate: (others * end) / (1 - end) };
}

export interface DemonstrateOptions {
  config: MalrConfig;
  source: TargetSource;
  /** Which of a question's episodes, from 0. */
  rollout: number;
  seed: number;
}

/** Plays one episode. The same seed and rollout give the same. Rejects when a tool fails. */
export async function demonstrate(
  query: Query,
  tools: MalrTools,
  { config, source, rollout, seed }: DemonstrateOptions,
): Promise<DemonstratedEpisode> {
  const random = stream(seed, 'demonstrate', query.id, rollout);
  const player = demonstrationPolicy({ query, source, random, offered: offeredActions(config) });
  const { reranker, pool } = watchPool(tools.reranker);
  const { policy, calls } = recordedPolicy(query.id, ({ role, round }) => player({ role, round, pool }));
  const episode = await runEpisode(query, { ...tools, reranker }, policy, config);
  return { queryId: query.id, rollout, calls, episode };
}

/** The reranker, and the set of all articles that it has kept so far. */
function watchPool(inner: Reranker): { reranker: Reranker; pool: Set<string> } {
  const pool = new Set<string>();
  const rerank: Reranker['rerank'] = async (original, hits, keep) => {
    const kept = await inner.rerank(original, hits, keep);
    for (const hit of kept) pool.add(hit.id);
    return kept;
  };
  return { reranker: { rerank }, pool };
}
