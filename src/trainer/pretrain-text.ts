/**
 * What a small base model is pretrained on: text of the statutes, and questions made from statutes with
 * the answer that a demonstration would give. The questions come in the very prompts of the environment,
 * so that a warm start has only the real questions left to teach.
 *
 * A made-up question is one to three neighbouring clauses of an article in lay words, with a piece missing
 * and a question's ending: what is missing must be remembered, which is the task of a rewriter.
 */
import { firstCharacters } from '../base/characters.ts';
import { type Random, stream } from '../base/random.ts';
import type { Role, Round } from '../env/episode.ts';
import { lawOf, lawShortName } from '../env/law-name.ts';
import type { LawyerConfig } from '../env/lawyer/config.ts';
import { statuteQuery, turnText } from '../env/lawyer/oracle.ts';
import { buildLawyerMessages, type EarlierCall } from '../env/lawyer/prompts/build-messages.ts';
import type { Action } from '../env/malr/agents.ts';
import { AGENTS } from '../env/malr/agents.ts';
import { planAction } from '../env/malr/demonstrate.ts';
import {
  decomposeTarget,
  rewriteTarget,
  supportTarget,
  type TargetSource,
} from '../env/malr/demonstration-targets.ts';
import { buildMessages } from '../env/malr/prompts/build-messages.ts';
import type { PromptPack } from '../env/malr/prompts/pack.ts';
import type { Article, Message } from '../env/types.ts';
import { LAY_WORDS, QUESTION_ENDINGS, QUESTION_OPENINGS } from './lay-words.ts';

/** One sample: `ids` with the end token; loss on the targets `ids[lossFrom …]`, lossFrom ≥ 1. */
export interface PretrainSample {
  ids: number[];
  lossFrom: number;
}

export interface PretrainTextInput {
  articles: readonly Article[];
  source: TargetSource;
  pack: PromptPack;
  offered: readonly Action[];
  /**
   * Ids of articles that stand for what is asked about, repeats included: half of the samples come from
   * their laws, in proportion. Empty: all articles alike.
   */
  focus: readonly string[];
  renderPrompt: (messages: Message[]) => number[];
  encode: (text: string) => number[];
  endId: number;
  seed: number;
  /** What the Lawyer is asked, in turns, instead of LegalMALR's calls: its settings, and facts and charges of cases, if any. */
  lawyer: { config: LawyerConfig; facts: readonly string[]; charges: readonly string[] } | null;
}

const TEXT_SHARE = 0.35;
const TEXT_CHARS = 96;
const MAX_TOKENS = 128;
/** A Lawyer's turn sees what was found. */
const MAX_LAWYER_TOKENS = 256;
const MAX_QUESTION = 72;
const MIN_STATEMENT = 8;
/** Chance of a word that has a lay alternative to be replaced. */
const LAY_SHARE = 0.5;
/** Mixture of the roles in the made-up pairs. */
const ROLE_SHARES: readonly (readonly [Role, number])[] = [
  ['rewrite_single', 0.4],
  ['rewrite_supplement', 0.15],
  ['decompose', 0.12],
  ['supportive_law', 0.1],
  ['repair', 0.08],
  ['planner', 0.15],
];

/** The samples, one after another for ever: the same input gives the same sequence. At most 128 tokens each, a Lawyer's turn 256. */
export function pretrainSampler(input: PretrainTextInput): () => PretrainSample {
  const random = stream(input.seed, 'pretrain-text');
  const draw = articleSampler(input, random);
  return () => {
    for (;;) {
      const sample =
        random.next() < TEXT_SHARE ? textSample(input, draw(), random) : pairSample(input, draw, random);
      if (sample.ids.length <= (input.lawyer ? MAX_LAWYER_TOKENS : MAX_TOKENS)) return sample;
    }
  };
}

function articleSampler({ articles, source, focus }: PretrainTextInput, random: Random): () => Article {
  const byLaw = new Map<string, Article[]>();
  for (const article of articles) {
    const group = byLaw.get(lawOf(article));
    if (group) group.push(article);
    else byLaw.set(lawOf(article), [article]);
  }
  const laws = focus.flatMap((id) => {
    const article = source.articles.get(id);
    return article === undefined ? [] : [byLaw.get(lawOf(article))!];
  });
  const oneOf = <T>(items: readonly T[]): T => items[random.int(items.length)]!;
  return () => (laws.length > 0 && random.next() < 0.5 ? oneOf(oneOf(laws)) : oneOf(articles));
}

/** A piece of an article, half of the time after its law's name; loss on every token but the first. */
function textSample(input: PretrainTextInput, article: Article, random: Random): PretrainSample {
  const clauses = splitClauses(article.text);
  const from = random.int(clauses.length);
  const name = random.next() < 0.5 ? `${lawShortName(lawOf(article))}：` : '';
  const text = name + article.text.slice(from === 0 ? 0 : article.text.indexOf(clauses[from]!));
  const piece = text.slice(0, TEXT_CHARS);
  // An end token opens the text as well: every target needs something before it.
  const ids = [input.endId, ...input.encode(piece)];
  if (piece.length === text.length) ids.push(input.endId);
  return { ids, lossFrom: 1 };
}

function pairSample(input: PretrainTextInput, draw: () => Article, random: Random): PretrainSample {
  if (input.lawyer) return lawyerSample(input, input.lawyer, draw, random);
  const role = pickRole(random);
  const golds = [draw()];
  if (role === 'decompose' || (role === 'planner' && random.next() < 0.3)) golds.push(draw());
  const question = pseudoQuestion(golds, random);
  const { messages, answer } =
    role === 'planner'
      ? plannerPair(input, golds, question, random)
      : rewriterPair(input, role, golds, question, random);
  const prompt = input.renderPrompt(messages);
  return { ids: [...prompt, ...input.encode(answer), input.endId], lossFrom: prompt.length };
}

/** Share of the Lawyer's made-up turns that see what a search found, and stop or go on. */
const LATER_TURN_SHARE = 0.35;

/** Share of the made-up turns that copy a real charge, whose article is not known. */
const COPY_SHARE = 0.2;

/** A turn of the Lawyer: the first search, or, after a search, STOP when the article asked for was found. */
function lawyerSample(
  { source, renderPrompt, encode, endId, articles }: PretrainTextInput,
  { config, facts, charges }: NonNullable<PretrainTextInput['lawyer']>,
  draw: () => Article,
  random: Random,
): PretrainSample {
  const asTurn = (query: string): string =>
    turnText({ kind: 'STATUTE', query, intent: random.next() < 0.5 ? '要件' : '量刑' }, config);
  if (charges.length > 0 && random.next() < COPY_SHARE) {
    const charge = charges[random.int(charges.length)]!;
    const prompt = renderPrompt(
      buildLawyerMessages(caseText(factsOf(facts, random), [charge]), [], [], config),
    );
    return { ids: [...prompt, ...encode(asTurn(charge)), endId], lossFrom: prompt.length };
  }
  const gold = draw();
  const question = pseudoCase(gold, facts, source, random);
  const turn = (role: 'rewrite_single' | 'repair'): string =>
    asTurn(statuteQuery(role, gold, question, source, random));
  const first = turn('rewrite_single');
  let calls: EarlierCall[] = [];
  let rounds: Round[] = [];
  let answer = first;
  if (random.next() < LATER_TURN_SHARE) {
    const others = Array.from({ length: config.evidenceItems }, () => articles[random.int(articles.length)]!);
    const found = random.next() < 0.6;
    if (found) others[random.int(others.length)] = gold;
    calls = [{ text: first, action: 'STATUTE', finishReason: 'stop' }];
    rounds = [roundOf(others, config)];
    answer = found ? turnText({ kind: 'STOP' }, config) : turn('repair');
  }
  const prompt = renderPrompt(buildLawyerMessages(question, calls, rounds, config));
  return { ids: [...prompt, ...encode(answer), endId], lossFrom: prompt.length };
}

/** Chance of a made-up case to tell the facts of another one: then only its charge says what it is about. */
const OTHER_FACTS_SHARE = 0.7;
/** Characters of the facts that are told. */
const FACT_CHARS = 160;

/**
 * A case as it is put to the Lawyer: facts, and the charge at the end, in one or two terms of the article. Facts of
 * real cases are told without regard to the article: who reads such a case must learn to read its end.
 */
function pseudoCase(gold: Article, facts: readonly string[], source: TargetSource, random: Random): string {
  const terms = random.shuffle(source.terms.articleTerms(gold.id, CHARGE_TERMS)).slice(0, 1 + random.int(2));
  const told =
    facts.length > 0 && random.next() < OTHER_FACTS_SHARE
      ? factsOf(facts, random)
      : pseudoQuestion([gold], random);
  return caseText(told, [terms.join('、')]);
}

const caseText = (told: string, charges: readonly string[]): string =>
  `事实:${told} 罪名:${charges.join(';')}。`;

/** An article's best terms, of which its made-up charge is drawn. */
const CHARGE_TERMS = 4;

/** A piece of the facts of one case. */
function factsOf(facts: readonly string[], random: Random): string {
  const characters = [...facts[random.int(facts.length)]!];
  const from = random.int(Math.max(1, characters.length - FACT_CHARS));
  return characters.slice(from, from + FACT_CHARS).join('');
}

function roundOf(found: readonly Article[], { evidenceChars }: LawyerConfig): Round {
  return {
    agent: 'STATUTE',
    queries: [],
    dropped: [],
    newIds: [],
    poolSize: found.length,
    evidence: found.map(({ id, title, text }, rank) => ({
      source: 'statute',
      id,
      rank,
      title,
      text: firstCharacters(text, evidenceChars),
      articles: [id],
    })),
  };
}

const NO_POOL = { round: 0, count: 0, diversity: 0, growth: 0, diminishing: false, agents: [] };

function rewriterPair(
  { pack, source, offered }: PretrainTextInput,
  role: Exclude<Role, 'planner'>,
  golds: readonly Article[],
  query: string,
  random: Random,
) {
  const messages = buildMessages(pack, role, { query, summary: NO_POOL, titles: [], offered });
  switch (role) {
    case 'decompose':
      return { messages, answer: decomposeTarget(golds, query, source, random) };
    case 'supportive_law':
      return { messages, answer: supportTarget(golds, query, source, random) };
    default:
      return { messages, answer: rewriteTarget(role, golds[0]!, query, source, random) };
  }
}

/** A planner's prompt with a pool that could be: each round finds up to ten articles, some of them again. */
function plannerPair(
  { pack, offered }: PretrainTextInput,
  golds: readonly Article[],
  query: string,
  random: Random,
) {
  const round = random.int(4);
  const searching = offered.filter((action) => AGENTS[action] !== 'end');
  const agents: Action[] = [];
  let count = 0;
  let growth = 0;
  for (let r = 0; r < round; r++) {
    const action = searching[random.int(searching.length)]!;
    growth = agents.includes(action) ? random.int(4) : r === 0 ? 10 : 2 + random.int(9);
    count += growth;
    agents.push(action);
  }
  const diversity = count === 0 ? 0 : 0.1 + 0.8 * random.next();
  const summary = { round, count, diversity, growth, diminishing: round > 0 && growth < 2, agents };
  const coverage = random.next();
  const action = planAction({ golds, ran: agents, round, coverage, poolSize: count }, offered, random);
  return {
    messages: buildMessages(pack, 'planner', { query, summary, titles: [], offered }),
    answer: JSON.stringify({ action }),
  };
}

function pickRole(random: Random): Role {
  let left = random.next();
  for (const [role, share] of ROLE_SHARES) {
    left -= share;
    if (left < 0) return role;
  }
  return 'rewrite_single';
}

/** A question about the articles, at most 72 characters. */
export function pseudoQuestion(golds: readonly Article[], random: Random): string {
  const opening = QUESTION_OPENINGS[random.int(QUESTION_OPENINGS.length)]!;
  const ending = QUESTION_ENDINGS[random.int(QUESTION_ENDINGS.length)]!;
  const room = Math.floor((MAX_QUESTION - opening.length - ending.length) / golds.length) - 1;
  const most = golds.length > 1 ? 1 : 3;
  const parts = golds.map(({ text }) =>
    dropSpan(inLayWords(neighbouringClauses(text, most, random), random), random).slice(0, room),
  );
  return `${opening}${parts.join('，')}${ending}`;
}

/** One to `most` clauses in a row, and as many more as it takes to say anything. */
function neighbouringClauses(text: string, most: number, random: Random): string {
  const clauses = splitClauses(text);
  const from = random.int(clauses.length);
  let to = from + 1 + random.int(most);
  while (to < clauses.length && clauses.slice(from, to).join('').length < MIN_STATEMENT) to++;
  return clauses.slice(from, to).join('，');
}

/** Clauses of a text without their punctuation; a text of nothing else is one clause. */
function splitClauses(text: string): string[] {
  const clauses = text
    .split(/[，。；：！？、\n,;.:!?]+|（[^（）]{1,3}）/)
    .filter((clause) => clause.trim().length > 1);
  return clauses.length > 0 ? clauses : [text];
}

function inLayWords(text: string, random: Random): string {
  let lay = text;
  for (const [legal, words] of LAY_WORDS) {
    if (lay.includes(legal) && random.next() < LAY_SHARE) {
      lay = lay.replaceAll(legal, words[random.int(words.length)]!);
    }
  }
  return lay;
}

/** Leaves out one run of up to a third of the characters. */
function dropSpan(text: string, random: Random): string {
  const length = random.int(Math.floor(text.length / 3) + 1);
  const from = random.int(text.length - length + 1);
  return text.slice(0, from) + text.slice(from + length);
}
