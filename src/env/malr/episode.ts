/**
 * One LegalMALR episode (arXiv 2601.17692, section 3): the planner picks an agent, its reformulations are
 * searched, what they find joins the pool, until a stop rule ends it. The pool starts empty; the original
 * question is an action like the others, not a gift. What ends an episode, and which ends are invalid,
 * stands in `stop-rules.ts`.
 */
import type { AgentCall, Episode, Role, Round, Termination } from '../episode.ts';
import type { Article, Hit, Policy, Query, Reranker, Retriever } from '../types.ts';
import { type Action, AGENTS, offeredActions, type RewriterRole } from './agents.ts';
import type { MalrConfig } from './config.ts';
import { type ParsedAction, parseAction } from './parse-action.ts';
import { type ParsedQueries, parseQueries } from './parse-queries.ts';
import { summarisePool } from './pool-summary.ts';
import { buildMessages, PACKS } from './prompts/build-messages.ts';
import { stopAfter, stopBefore } from './stop-rules.ts';

/** What an episode searches with. */
export interface MalrTools {
  retriever: Retriever;
  reranker: Reranker;
  /** Title and law of an article; undefined for an unknown id. */
  article(id: string): Pick<Article, 'title' | 'law'> | undefined;
  /** Fuses the kept lists of all searches, in search order, into one ranking of ids without duplicates. */
  rankPool(searches: Hit[][]): string[];
}

/** What grows while an episode runs. */
interface State {
  calls: AgentCall[];
  rounds: Round[];
  /** What was kept of every search, in round and query order, each best first. */
  searches: Hit[][];
  /** Ids in the order of first finding. */
  members: Set<string>;
  badRewrites: number;
}

/** A reformulation step: what to search, what was dropped, and whether the episode must end as invalid. */
interface Reformulation {
  queries: string[];
  dropped: Round['dropped'];
  invalid: string | null;
}

/**
 * Runs one episode. The same policy outputs give the same episode, whatever the timing of the searches.
 * A call's `round` is the index in `rounds` of the round it belongs to; a planner call that ends the
 * episode has the index one past the last round. `pool`: the ranked pool, at most `poolLimit` ids, empty when
 * nothing was found. Rejects when the policy, the retriever or the reranker
 * fails: such an episode has no result.
 */
export async function runEpisode(
  query: Query,
  tools: MalrTools,
  policy: Policy,
  config: MalrConfig,
): Promise<Episode> {
  const state: State = { calls: [], rounds: [], searches: [], members: new Set(), badRewrites: 0 };
  let termination: Termination | null = null;
  while (termination === null) termination = await runRound(query, tools, policy, config, state);
  return {
    calls: state.calls,
    rounds: state.rounds,
    pool: rankedPool(state, tools).slice(0, config.poolLimit),
    termination,
  };
}

/** Planner, agent, searches, merge. Gives the end of the episode, or null to go on. */
async function runRound(
  query: Query,
  tools: MalrTools,
  policy: Policy,
  config: MalrConfig,
  state: State,
): Promise<Termination | null> {
  const call = (role: Role) => callPolicy(role, query, tools, policy, config, state);

  const plan = await call('planner');
  const parsed = readAction(plan, config);
  if (parsed.kind === 'failed') return { kind: 'invalid', reason: `planner output: ${parsed.reason}` };
  plan.action = parsed.action;
  const stop = stopBefore(state.rounds, parsed.action, config);
  if (stop !== null) return stop;

  const { queries, dropped, invalid } = await reformulate(parsed.action, query, tools, call, config, state);
  const found = await searchAll(query.query, queries, tools, config);
  const newIds = merge(state.members, found);
  state.searches.push(...found);
  state.rounds.push({ agent: parsed.action, queries, dropped, newIds, poolSize: state.members.size });
  return invalid === null ? stopAfter(state.rounds, config) : { kind: 'invalid', reason: invalid };
}

/** Asks the policy in one role and keeps the call. */
async function callPolicy(
  role: Role,
  query: Query,
  tools: MalrTools,
  policy: Policy,
  config: MalrConfig,
  state: State,
): Promise<AgentCall> {
  const pack = PACKS[config.prompts];
  const title = (id: string) => tools.article(id)?.title ?? id;
  const messages = buildMessages(pack, role, {
    query: query.query,
    summary: summarisePool([...state.members], state.rounds, (id) => tools.article(id)?.law),
    titles: pack.titleRoles.includes(role) ? rankedPool(state, tools).map(title) : [],
    offered: offeredActions(config),
  });
  const round = state.rounds.length;
  const output = await policy({ role, round, callIndex: state.calls.length, messages });
  const call: AgentCall = {
    role,
    round,
    promptIds: output.promptIds,
    outputIds: output.outputIds,
    logprobs: output.logprobs,
    temperature: output.temperature,
    finishReason: output.finishReason,
    text: output.text,
    action: null,
  };
  state.calls.push(call);
  return call;
}

/** Only an output that ended by itself counts: one that was cut may read as something it was not to be. */
function readAction(call: AgentCall, config: MalrConfig): ParsedAction {
  if (call.finishReason !== 'stop') return { kind: 'failed', reason: 'cut by the length limit' };
  return parseAction(call.text, offeredActions(config));
}

function readQueries(role: RewriterRole, call: AgentCall, config: MalrConfig): ParsedQueries {
  if (call.finishReason !== 'stop') return { kind: 'failed', reason: 'cut by the length limit' };
  return parseQueries(role, call.text, config);
}

/** Runs the chosen agent and sorts out what may be searched. */
async function reformulate(
  action: Action,
  query: Query,
  tools: MalrTools,
  call: (role: Role) => Promise<AgentCall>,
  config: MalrConfig,
  state: State,
): Promise<Reformulation> {
  const role = AGENTS[action];
  if (role === 'end') throw new Error('terminate is no reformulation');
  if (role === 'search-question') return { queries: [query.query], dropped: [], invalid: null };

  const answer = await call(role);
  const parsed = readQueries(role, answer, config);
  if (parsed.kind === 'failed') {
    state.badRewrites++;
    const reason = `${role} output: ${parsed.reason}`;
    const tolerated = state.badRewrites <= config.toleratedBadRewrites;
    return { queries: [], dropped: [{ query: answer.text, reason }], invalid: tolerated ? null : reason };
  }
  const queries: string[] = [];
  const dropped: Round['dropped'] = [];
  for (const text of parsed.queries) {
    // Mostly words that no statute uses: invented terms, which would only find noise.
    if (tools.retriever.unknownTermShare(text) > config.unknownTermLimit)
      dropped.push({ query: text, reason: 'unknown terms' });
    else queries.push(text);
  }
  return { queries, dropped, invalid: null };
}

/** Retrieves and reranks every query at once; the lists come back in the order of the queries. */
function searchAll(
  original: string,
  queries: string[],
  tools: MalrTools,
  config: MalrConfig,
): Promise<Hit[][]> {
  return Promise.all(
    queries.map(async (rewrite) => {
      const hits = await tools.retriever.search({ original, rewrite }, config.topK);
      return tools.reranker.rerank(original, hits, config.keep);
    }),
  );
}

/** Adds what is new to the members, in list order, and gives it back. */
function merge(members: Set<string>, lists: Hit[][]): string[] {
  const newIds: string[] = [];
  for (const { id } of lists.flat()) {
    if (members.has(id)) continue;
    members.add(id);
    newIds.push(id);
  }
  return newIds;
}

function rankedPool(state: State, tools: MalrTools): string[] {
  return tools.rankPool(state.searches);
}
