/**
 * One episode of the Lawyer (Legal-R1): turn by turn it searches statutes with an intent, searches precedents, or
 * stops; after each piece of evidence it goes on, switches the source, or stops. A judge that is never trained
 * then answers from what was found. Ends:
 *
 *   STOP                                     kind planner
 *   turns or tokens spent                    kind cap; the judge answers from what there is
 *   STOP with nothing found (by config), a turn that cannot be read (by config, or the second one)   kind invalid, no answer
 */
import { firstCharacters, lettersAndDigits } from '../../base/characters.ts';
import type { AgentCall, Episode, Round, Termination } from '../episode.ts';
import { rankPool } from '../retrieval/rank-pool.ts';
import type { Hit, Policy, Query } from '../types.ts';
import type { LawyerConfig } from './config.ts';
import { type ParsedTurn, parseTurn } from './parse-turn.ts';
import { buildLawyerMessages, REPEATED, UNKNOWN_TERMS } from './prompts/build-messages.ts';
import type { Evidence, Judge, LawyerAction, PrecedentSearch, StatuteSearch } from './types.ts';

/** What an episode searches with and who answers; without precedents their search finds nothing. */
export interface LawyerTools {
  statutes: StatuteSearch;
  precedents: PrecedentSearch | null;
  judge: Judge;
  hasArticle(id: string): boolean;
}

/** What grows while an episode runs. */
interface State {
  calls: AgentCall[];
  rounds: Round[];
  /** What the judge reads: each article and case once, in the order of first finding, at its best place, in full. */
  evidence: Evidence[];
  /** Searches made, normalised. */
  asked: Set<string>;
  /** Ids of articles in the order of first finding. */
  members: Set<string>;
  correctives: number;
}

type Search = Exclude<LawyerAction, { kind: 'STOP' }>;

/**
 * Runs one episode. The same policy outputs and the same tools give the same episode. A call's `round` is the number
 * of rounds before it. Rejects when the policy, a search or the judge fails: such an episode has no result.
 */
export async function runLawyerEpisode(
  query: Query,
  tools: LawyerTools,
  policy: Policy,
  config: LawyerConfig,
): Promise<Episode> {
  const state: State = {
    calls: [],
    rounds: [],
    evidence: [],
    asked: new Set(),
    members: new Set(),
    correctives: 0,
  };
  let termination: Termination | null = null;
  while (termination === null) termination = await takeTurn(query, tools, policy, config, state);
  const { calls, rounds, evidence, correctives } = state;
  const answer =
    termination.kind === 'invalid'
      ? null
      : { by: tools.judge.name, ...(await tools.judge.answer(query, evidence)) };
  return {
    calls,
    rounds,
    pool: pooled(rounds).slice(0, config.poolLimit),
    termination,
    answer,
    correctives,
  };
}

async function takeTurn(
  query: Query,
  tools: LawyerTools,
  policy: Policy,
  config: LawyerConfig,
  state: State,
): Promise<Termination | null> {
  const capped = capOf(state, config);
  if (capped !== null) return { kind: 'cap', reason: capped };
  const call = await callPolicy(query, policy, config, state);
  const parsed = readTurn(call, config);
  if (parsed.kind === 'failed') {
    if (config.malformed === 'end' || state.correctives > 0)
      return { kind: 'invalid', reason: `turn: ${parsed.reason}` };
    state.correctives++;
    return null;
  }
  const { action } = parsed;
  call.action = action.kind;
  if (action.kind === 'STOP') {
    if (state.evidence.length > 0 || config.allowEarlyStop) return { kind: 'planner', reason: 'STOP' };
    return { kind: 'invalid', reason: 'STOP with nothing found' };
  }
  state.rounds.push(await searched(action, query, tools, config, state));
  return null;
}

/** Why no further turn is taken; null while one may be. */
function capOf({ calls }: State, { maxTurns, maxPolicyTokens }: LawyerConfig): string | null {
  if (calls.length >= maxTurns) return `${maxTurns} turns`;
  const tokens = calls.reduce((sum, { outputIds }) => sum + outputIds.length, 0);
  return tokens >= maxPolicyTokens ? `${maxPolicyTokens} tokens` : null;
}

async function callPolicy(
  query: Query,
  policy: Policy,
  config: LawyerConfig,
  { calls, rounds }: State,
): Promise<AgentCall> {
  const messages = buildLawyerMessages(query.query, calls, rounds, config);
  const round = rounds.length;
  const output = await policy({ role: 'lawyer', round, callIndex: calls.length, messages });
  const { promptIds, outputIds, logprobs, temperature, finishReason, text } = output;
  const call: AgentCall = {
    role: 'lawyer',
    round,
    promptIds,
    outputIds,
    logprobs,
    temperature,
    finishReason,
    text,
    action: null,
  };
  calls.push(call);
  return call;
}

/** Only an output that ended by itself counts: one that was cut may read as something it was not to be. */
function readTurn({ finishReason, text }: AgentCall, { prompts, maxQueryChars }: LawyerConfig): ParsedTurn {
  if (finishReason !== 'stop') return { kind: 'failed', reason: 'cut by the length limit' };
  return parseTurn(text, prompts, maxQueryChars);
}

/** Two searches are the same when kind and query are, whatever the spacing, punctuation and intent. */
const keyOf = ({ kind, query }: Search): string => `${kind} ${lettersAndDigits(query)}`;

async function searched(
  action: Search,
  query: Query,
  tools: LawyerTools,
  config: LawyerConfig,
  state: State,
): Promise<Round> {
  const { members, asked } = state;
  const intent = action.kind === 'STATUTE' ? { intent: action.intent } : {};
  const dropped = (reason: string): Round => ({
    agent: action.kind,
    queries: [],
    dropped: [{ query: action.query, reason }],
    newIds: [],
    poolSize: members.size,
    ...intent,
    evidence: [],
  });
  if (asked.has(keyOf(action))) return dropped(REPEATED);
  if (unknownTermShare(action, tools) > config.unknownTermLimit) return dropped(UNKNOWN_TERMS);
  asked.add(keyOf(action));
  const found = (await search(action, query, tools)).slice(0, config.evidenceItems).map((one) => ({
    ...one,
    articles: one.articles.filter((id) => tools.hasArticle(id)),
  }));
  const newIds: string[] = [];
  for (const id of found.flatMap(({ articles }) => articles)) {
    if (members.has(id)) continue;
    members.add(id);
    newIds.push(id);
  }
  for (const one of found) keep(state.evidence, one);
  return {
    agent: action.kind,
    queries: [action.query],
    dropped: [],
    newIds,
    poolSize: members.size,
    ...intent,
    evidence: found.map((one) => shorten(one, config.evidenceChars)),
  };
}

/** Adds what is new; what is known keeps its best place, so that searching the same thing twice changes nothing. */
function keep(evidence: Evidence[], one: Evidence): void {
  const known = evidence.findIndex(({ source, id }) => source === one.source && id === one.id);
  if (known < 0) evidence.push(one);
  else if (one.rank < evidence[known]!.rank) evidence[known] = { ...evidence[known]!, rank: one.rank };
}

/** By the texts that are searched: facts of cases are told in words that few statutes use. */
function unknownTermShare({ kind, query }: Search, { statutes, precedents }: LawyerTools): number {
  if (kind === 'STATUTE') return statutes.unknownTermShare(query);
  return precedents === null ? 0 : precedents.unknownTermShare(query);
}

async function search(action: Search, query: Query, tools: LawyerTools): Promise<Evidence[]> {
  const { query: original } = query;
  if (action.kind === 'STATUTE')
    return tools.statutes.search({
      original,
      query: action.query,
      intent: action.intent,
      date: query.date ?? null,
    });
  if (tools.precedents === null) return [];
  const { charges } = action;
  return tools.precedents.search({ original, query: action.query, charges, exclude: query.exclude ?? [] });
}

function shorten(evidence: Evidence, most: number): Evidence {
  const text = firstCharacters(evidence.text, most);
  return text === evidence.text ? evidence : { ...evidence, text: `${text}…` };
}

/** Articles in order: those that statute searches found, fused by rank; then those that precedents apply, the commonest first. */
function pooled(rounds: readonly Round[]): string[] {
  const lists = rounds
    .filter(({ agent }) => agent === 'STATUTE')
    .map(({ evidence = [] }) => evidence.map(({ id }, rank): Hit => ({ id, score: -rank })));
  const pool = new Set(rankPool(lists));
  const applied = new Map<string, number>();
  for (const { agent, evidence = [] } of rounds)
    if (agent === 'PRECEDENT')
      for (const id of evidence.flatMap(({ articles }) => articles))
        applied.set(id, (applied.get(id) ?? 0) + 1);
  for (const [id] of [...applied].sort(([, a], [, b]) => b - a)) pool.add(id);
  return [...pool];
}
