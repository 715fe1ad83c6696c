/** The judge's stand-in: votes of the statutes found and of the precedents that apply them. */
import { characterPairs } from '../../base/characters.ts';
import { chargesNamed } from './charges.ts';
import { monthsOf } from './precedents/sentence.ts';
import type { Evidence, Judge } from './types.ts';

export interface VotesOptions {
  /** How well an article's text fits the question, ≥ 0; comparable within one question. */
  fit(question: string, id: string): Promise<number>;
  /** Share of all precedents that apply an article, [0, 1]: what nearly every judgment applies decides none. */
  commonness(id: string): number;
}

/**
 * Votes for being found first, for fitting the question best, and for fitting the charge best; and of the articles,
 * those that are named: with at least so much of the first one's votes, so many at most.
 */
interface Weights {
  place: number;
  question: number;
  charge: number;
  namedFrom: number;
  mostNamed: number;
}
const FOR_A_CHARGE: Weights = { place: 0.5, question: 0.3, charge: 0.6, namedFrom: 0.85, mostNamed: 2 };
const AS_A_WHOLE: Weights = { place: 0.5, question: 0.5, charge: 0, namedFrom: 0.7, mostNamed: 3 };
/** Votes of an article that every precedent found applies, and that no other does. */
const PRECEDENT_VOTE = 0.5;

/**
 * The stand-in for a model. For each charge that the question ends with (none: for the question as a whole) the
 * articles with the most votes: by the best place at which a search found one, by its fit to the question and to the
 * charge, and by the precedents that apply it, as far as they are about the charge and it is not common to all.
 * Choices: the option whose characters the evidence holds most of, if any. Number: the median term, in months, of the
 * precedents.
 *
 * The weights were chosen on a third of LawBench's 320 cases. On the others the answer is right to the article for
 * 64 % where the oracle searched statutes, and for 46 % where the charge alone was the query.
 */
export function votesJudge(options: VotesOptions): Judge {
  return {
    name: 'votes (stand-in)',
    async answer({ query, answer }, evidence) {
      const articles = await votedArticles(query, evidence, options);
      const choices = answer?.kind === 'choice' ? likeliestChoice(query, evidence) : [];
      const number = answer?.kind === 'number' ? medianMonths(evidence) : null;
      return {
        text: [...articles, ...choices, ...(number === null ? [] : [number])].join(' '),
        articles,
        choices,
        number,
      };
    },
  };
}

/** The articles named for each charge, or for the question as a whole, each once. */
async function votedArticles(
  question: string,
  evidence: readonly Evidence[],
  { fit, commonness }: VotesOptions,
): Promise<string[]> {
  const ids = [...new Set(evidence.flatMap(({ articles }) => articles))];
  const fits = async (text: string): Promise<Map<string, number>> => {
    const all = await Promise.all(ids.map((id) => fit(text, id)));
    const best = Math.max(...all, 1e-9);
    return new Map(ids.map((id, i) => [id, all[i]! / best]));
  };
  const toQuestion = await fits(question);
  const charges = chargesNamed(question);
  const weights = charges.length > 0 ? FOR_A_CHARGE : AS_A_WHOLE;
  const named = new Set<string>();
  for (const charge of charges.length > 0 ? charges : [null]) {
    const toCharge = charge === null ? null : await fits(charge);
    const votes = new Map(
      ids.map((id) => [
        id,
        weights.question * toQuestion.get(id)! + weights.charge * (toCharge?.get(id) ?? 0),
      ]),
    );
    addVotesOf(evidence, votes, charge, weights, commonness);
    for (const id of mostVoted(votes, weights)) named.add(id);
  }
  return [...named];
}

/** Adds to `votes` those for places in searches, then those of the precedents. */
function addVotesOf(
  evidence: readonly Evidence[],
  votes: Map<string, number>,
  charge: string | null,
  { place }: Weights,
  commonness: VotesOptions['commonness'],
): void {
  const add = (id: string, vote: number): void => void votes.set(id, votes.get(id)! + vote);
  const precedents = evidence.filter(isPrecedent);
  for (const { source, id, rank } of evidence) if (source === 'statute') add(id, place / (1 + rank));
  for (const { title, articles } of precedents) {
    const about = charge === null ? 1 : sharedPairs(charge, title) ** 2;
    for (const id of articles)
      add(id, (PRECEDENT_VOTE * about * (1 - commonness(id)) ** 4) / precedents.length);
  }
}

const isPrecedent = ({ source }: Evidence): boolean => source === 'precedent';

function mostVoted(votes: ReadonlyMap<string, number>, { namedFrom, mostNamed }: Weights): string[] {
  const ranked = [...votes].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  const best = ranked[0]?.[1] ?? 0;
  return ranked
    .filter(([, vote]) => vote > 0 && vote >= namedFrom * best)
    .slice(0, mostNamed)
    .map(([id]) => id);
}

/** Pairs of characters that two short texts share, as a share of the shorter one's, [0, 1]. */
function sharedPairs(a: string, b: string): number {
  const [own, others] = [new Set(pairsOf(a)), new Set(pairsOf(b))];
  const shared = [...own].filter((pair) => others.has(pair)).length;
  return shared / Math.max(1, Math.min(own.size, others.size));
}

/** The first of equals; none where the evidence holds nothing of any. */
function likeliestChoice(query: string, evidence: readonly Evidence[]): string[] {
  const pairs = new Set(evidence.flatMap(({ text }) => pairsOf(text)));
  let best: { letter: string; share: number } | null = null;
  for (const [, letter, option] of query.matchAll(
    /([A-Z])\s*[.．、:：]\s*([^\n]*?)(?=\s*[A-Z]\s*[.．、:：]|\n|$)/g,
  )) {
    const own = pairsOf(option!);
    const share = own.length === 0 ? 0 : own.filter((pair) => pairs.has(pair)).length / own.length;
    if (share > (best?.share ?? 0)) best = { letter: letter!, share };
  }
  return best === null ? [] : [best.letter];
}

const pairsOf = (text: string): string[] => characterPairs(text.replace(/[^\p{L}\p{N}]+/gu, ''));

/** Median of the terms that the precedents' texts name first, in months: 有期徒刑18个月, 拘役五个月, 3年6个月. */
function medianMonths(evidence: readonly Evidence[]): number | null {
  const months = evidence.filter(isPrecedent).flatMap(({ text }) => {
    const [, chinese, english] =
      /(?:有期徒刑|拘役|管制)[为]?([^，。；：、]{1,18})|(\d+(?:\.\d+)?)\s*months/u.exec(text) ?? [];
    const term = chinese !== undefined ? monthsOf(chinese) : english !== undefined ? Number(english) : null;
    return term === null ? [] : [term];
  });
  if (months.length === 0) return null;
  months.sort((a, b) => a - b);
  const middle = Math.floor(months.length / 2);
  return months.length % 2 === 1 ? months[middle]! : (months[middle - 1]! + months[middle]!) / 2;
}
