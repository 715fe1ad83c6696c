/**
 * What a small base model for the Lawyer is pretrained on besides text: turns of made-up cases, and drills in
 * copying. Most first searches name what the case names at its end, which a model can only say by looking back.
 */
import { firstCharacters } from '../base/characters.ts';
import type { Random } from '../base/random.ts';
import type { Round } from '../env/episode.ts';
import type { LawyerConfig } from '../env/lawyer/config.ts';
import { statuteQuery, turnText } from '../env/lawyer/oracle.ts';
import { buildLawyerMessages, type EarlierCall } from '../env/lawyer/prompts/build-messages.ts';
import type { TargetSource } from '../env/malr/demonstration-targets.ts';
import type { Article } from '../env/types.ts';
import type { PretrainSample, PretrainTextInput } from './pretrain-text.ts';
import { pseudoQuestion, splitClauses } from './pseudo-question.ts';

/** Characters of a drill. */
const DRILL_CHARS = { least: 4, most: 32 };

/**
 * Something, other text, and the same again; loss on what is repeated. Half of the time its characters are shuffled,
 * so that nothing but looking back tells what comes next.
 */
export function drillSample(
  { encode, endId }: PretrainTextInput,
  draw: () => Article,
  random: Random,
): PretrainSample {
  const characters = [...draw().text.replace(/\s+/gu, '')];
  const length = Math.min(
    characters.length,
    DRILL_CHARS.least + random.int(DRILL_CHARS.most - DRILL_CHARS.least + 1),
  );
  const from = random.int(characters.length - length + 1);
  const span = characters.slice(from, from + length);
  const said = (random.next() < 0.5 ? random.shuffle(span) : span).join('');
  const between = [...draw().text].slice(0, random.int(24)).join('');
  const before = [endId, ...encode(`${said}。${between}：`)];
  return { ids: [...before, ...encode(said), endId], lossFrom: before.length };
}

/** Share of the Lawyer's made-up turns that see what a search found, and stop or go on. */
const LATER_TURN_SHARE = 0.35;

/**
 * Share of the made-up turns that copy a charge alone: a real one, whose article is not known, or a piece of any
 * article. A model that copies only what it knows by heart fails at the first charge that it never saw.
 */
const COPY_SHARE = 0.35;
const REAL_CHARGE_SHARE = 0.3;
/** Longest piece that stands for a charge, characters. */
const PIECE_CHARS = 12;

/** A turn of the Lawyer: the first search, or, after a search, STOP when the article asked for was found. */
export function lawyerSample(
  { source, renderPrompt, encode, endId, articles }: PretrainTextInput,
  { config, facts, charges }: NonNullable<PretrainTextInput['lawyer']>,
  draw: () => Article,
  random: Random,
): PretrainSample {
  const asTurn = (query: string): string =>
    turnText({ kind: 'STATUTE', query, intent: random.next() < 0.5 ? '要件' : '量刑' }, config);
  if (random.next() < COPY_SHARE) {
    const isReal = charges.length > 0 && random.next() < REAL_CHARGE_SHARE;
    const charge = isReal ? charges[random.int(charges.length)]! : pieceOf(draw(), random);
    const told = facts.length > 0 ? factsOf(facts, random) : pseudoQuestion([draw()], random);
    const prompt = renderPrompt(buildLawyerMessages(caseText(told, [charge]), [], [], config));
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

/** Up to 12 characters in a row of one clause of an article. */
function pieceOf({ text }: Article, random: Random): string {
  const clauses = splitClauses(text);
  const characters = [...clauses[random.int(clauses.length)]!.replace(/[^\p{L}\p{N}]+/gu, '')];
  const length = Math.min(characters.length, 2 + random.int(PIECE_CHARS - 1));
  const from = random.int(characters.length - length + 1);
  return characters.slice(from, from + length).join('');
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
