/**
 * What a small base model is pretrained on: text of the statutes, and questions made from statutes with
 * the answer that a demonstration would give. The questions come in the very prompts of the environment,
 * so that a warm start has only the real questions left to teach. (`pseudo-question.ts`; the Lawyer's turns: `pretrain-lawyer.ts`).
 */
import { type Random, stream } from '../base/random.ts';
import type { Role } from '../env/episode.ts';
import { lawOf, lawShortName } from '../env/law-name.ts';
import type { LawyerConfig } from '../env/lawyer/config.ts';
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
import { drillSample, lawyerSample } from './pretrain-lawyer.ts';
import { pseudoQuestion, splitClauses } from './pseudo-question.ts';

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
/** Share of the samples of a Lawyer's model that only repeat something: most of its turns copy what the case names. */
const DRILL_SHARE = 0.4;
const TEXT_CHARS = 96;
const MAX_TOKENS = 128;
/** A Lawyer's turn sees what was found. */
const MAX_LAWYER_TOKENS = 256;
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
  const next = (): PretrainSample => {
    if (input.lawyer && random.next() < DRILL_SHARE) return drillSample(input, draw, random);
    return random.next() < TEXT_SHARE ? textSample(input, draw(), random) : pairSample(input, draw, random);
  };
  return () => {
    for (;;) {
      const sample = next();
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
