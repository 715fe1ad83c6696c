/**
 * The teacher's stand-in: it knows the gold, and searches with the real tools for what a good Lawyer would search.
 * It asks for a gold article that is still missing in terms of that article's own text, for precedents now and
 * then, and stops once everything is found. Some choices are drawn, so that a policy learns which searches may be
 * made rather than one fixed sequence.
 */
import { characterPairs, firstCharacters } from '../../base/characters.ts';
import { type Random, stream } from '../../base/random.ts';
import { type DemonstratedEpisode, recordedPolicy } from '../demonstration.ts';
import { DEFAULT_TARGETS, rewriteTarget, type TargetSource } from '../malr/demonstration-targets.ts';
import type { Article, Query } from '../types.ts';
import { chargesNamed } from './charges.ts';
import type { LawyerConfig } from './config.ts';
import { type LawyerTools, runLawyerEpisode } from './episode.ts';
import type { Evidence, LawyerAction, PrecedentSearch, StatuteSearch } from './types.ts';

/** Chance of a search of precedents, where there are some and none was made yet. */
const PRECEDENT_SHARE = 0.25;
/** Searches after which the teacher stops whatever is missing: what three do not find the fourth rarely does. */
const MOST_SEARCHES = 4;
/** Other draws of a query that was asked before. */
const REDRAWS = 4;
/** Characters of a query for precedents: as many as of one for statutes. */
const PRECEDENT_CHARS = DEFAULT_TARGETS.maxChars;

export interface LawyerDemonstrateOptions {
  config: LawyerConfig;
  source: TargetSource;
  /** Which of a question's episodes, from 0. */
  rollout: number;
  seed: number;
}

/**
 * Plays one episode of a question with gold. The same seed and rollout give the same. Rejects when a tool or the judge
 * fails.
 */
export async function demonstrateLawyer(
  query: Query,
  tools: LawyerTools,
  { config, source, rollout, seed }: LawyerDemonstrateOptions,
): Promise<DemonstratedEpisode> {
  const random = stream(seed, 'demonstrate', query.id, rollout);
  const { watched, found } = watch(tools, config.evidenceItems);
  const next = oracleOf(query, source, random, {
    hasPrecedents: tools.precedents !== null,
    // The last turn is for STOP, where there is more than one.
    most: Math.max(1, Math.min(MOST_SEARCHES, config.maxTurns - 1)),
  });
  const { policy, calls } = recordedPolicy(query.id, () => turnText(next(found), config));
  const episode = await runLawyerEpisode(query, watched, policy, config);
  return { queryId: query.id, rollout, calls, episode };
}

/**
 * Turn by turn what to do, given the articles found so far. Throws for a question without gold, and for a gold id that
 * the corpus lacks.
 */
function oracleOf(
  query: Query,
  source: TargetSource,
  random: Random,
  { hasPrecedents, most }: { hasPrecedents: boolean; most: number },
): (found: ReadonlySet<string>) => LawyerAction {
  const golds = query.gold.map((id): Article => {
    const gold = source.articles.get(id);
    if (gold === undefined) throw new Error(`gold article ${id} of ${query.id} is not in the corpus`);
    return gold;
  });
  if (golds.length === 0) throw new Error(`${query.id} has no gold to search for`);
  const asked = new Set<string>();
  let searches = 0;
  let hasAskedPrecedents = false;
  const termsFor = (gold: Article): string => {
    const role = searches > 1 ? 'repair' : 'rewrite_single';
    let terms = statuteQuery(role, gold, query.query, source, random);
    for (let i = 0; i < REDRAWS && asked.has(terms); i++)
      terms = rewriteTarget('repair', gold, query.query, source, random);
    asked.add(terms);
    return terms;
  };
  return (found) => {
    const missing = golds.filter(({ id }) => !found.has(id));
    if ((missing.length === 0 && searches > 0) || searches >= most) return { kind: 'STOP' };
    searches++;
    if (hasPrecedents && !hasAskedPrecedents && random.next() < PRECEDENT_SHARE) {
      hasAskedPrecedents = true;
      return precedentSearch(query.query);
    }
    const terms = termsFor(missing[random.int(missing.length)] ?? golds[0]!);
    return { kind: 'STATUTE', query: terms, intent: random.next() < 0.5 ? '要件' : '量刑' };
  };
}

/** Terms that a charge is filled up with. */
const TERMS_BESIDE_CHARGE = 2;

/**
 * A query for an article. Where the question names charges: the one nearest to the article, as it stands there, and
 * terms of the article that the question does not say; a policy learns to copy first, and then what to add. Else
 * terms alone, and so for another try.
 */
export function statuteQuery(
  role: 'rewrite_single' | 'repair',
  gold: Article,
  question: string,
  source: TargetSource,
  random: Random,
): string {
  const charge = role === 'repair' ? null : nearestCharge(chargesNamed(question), gold.text);
  if (charge === null) return rewriteTarget(role, gold, question, source, random);
  const terms = rewriteTarget('rewrite_supplement', gold, question, source, random).split(' ');
  const [first = '', ...more] = terms.filter((term) => !charge.includes(term)).slice(0, TERMS_BESIDE_CHARGE);
  return firstCharacters([charge, first, ...more].join(' '), DEFAULT_TARGETS.maxChars).trim();
}

/** The charge that shares most of its pairs of characters with a text, the first of equals; null for none. */
function nearestCharge(charges: readonly string[], text: string): string | null {
  let best: { charge: string; share: number } | null = null;
  for (const charge of charges) {
    const pairs = characterPairs(charge);
    const share = pairs.filter((pair) => text.includes(pair)).length / Math.max(1, pairs.length);
    if (best === null || share > best.share) best = { charge, share };
  }
  return best?.charge ?? null;
}

/** Cases are told in the words of facts and charges: what the question says, and its charges where it names some. */
function precedentSearch(question: string): LawyerAction {
  const charges = chargesNamed(question);
  const words = charges.length > 0 ? charges.join(' ') : question.replace(/\s+/gu, ' ').trim();
  return { kind: 'PRECEDENT', query: firstCharacters(words, PRECEDENT_CHARS), charges };
}

/** An action as the pack writes it. */
export function turnText(action: LawyerAction, { prompts }: Pick<LawyerConfig, 'prompts'>): string {
  if (prompts !== 'zh-compact') {
    const { kind, ...rest } = action;
    return JSON.stringify({ action: kind, ...rest });
  }
  switch (action.kind) {
    case 'STATUTE':
      return `法：${action.intent}：${action.query}`;
    case 'PRECEDENT':
      return `案：${action.query}`;
    case 'STOP':
      return '止';
  }
}

/** The tools, and the set of all articles that their searches have brought so far, of the pieces that are shown. */
function watch(tools: LawyerTools, shown: number): { watched: LawyerTools; found: Set<string> } {
  const found = new Set<string>();
  const see = (evidence: Evidence[]): Evidence[] => {
    for (const id of evidence.slice(0, shown).flatMap(({ articles }) => articles)) found.add(id);
    return evidence;
  };
  const statutes: StatuteSearch = {
    ...tools.statutes,
    search: async (request) => see(await tools.statutes.search(request)),
  };
  const inner = tools.precedents;
  const precedents: PrecedentSearch | null = inner && {
    ...inner,
    search: async (request) => see(await inner.search(request)),
  };
  return { watched: { ...tools, statutes, precedents }, found };
}
