/**
 * The judge: writes the answer from everything that the Lawyer found. Never trained, and exchangeable: a chat
 * model, or a stand-in that counts votes. Both see question and evidence, never the gold.
 */
import { z } from 'zod';
import { messageOf } from '../../base/errors.ts';
import type { Message, Query } from '../types.ts';
import type { Answer, ChatModel, Evidence, Judge } from './types.ts';

const answerSchema = z.strictObject({
  answer: z.string().trim().min(1),
  articles: z.array(z.string()).default([]),
  choices: z.array(z.string()).default([]),
  number: z.number().nullable().default(null),
});

export interface ModelJudgeOptions {
  chat: ChatModel;
  maxTokens: number;
  temperature: number;
}

/** Evidence is cited by number, so an article that was not found cannot be. Rejects when the model gives no such answer. */
export function modelJudge({ chat, maxTokens, temperature }: ModelJudgeOptions): Judge {
  return {
    name: chat.name,
    async answer(question, evidence) {
      const text = await chat.chat(promptOf(question, evidence), { maxTokens, temperature });
      return readAnswer(text, evidence, chat.name);
    },
  };
}

const FORM = '{"answer":"…","articles":["1","3"],"choices":["A"],"number":null}';

function promptOf(
  { query, answer }: Pick<Query, 'query' | 'answer'>,
  evidence: readonly Evidence[],
): Message[] {
  const lines = evidence.map(({ source, title, text }, i) => `[${i + 1}] ${source}, ${title}: ${text}`);
  const asked = {
    articles: 'articles: the numbers in brackets of the statutes that decide the question, and no others.',
    choice: 'choices: the letters of the right options.',
    number: 'number: the number that is asked for (a prison term in months).',
    text: 'answer: the answer in a few sentences.',
  }[answer?.kind ?? 'articles'];
  return [
    {
      role: 'system',
      content: `You are a judge. Answer from the evidence alone: rule, facts, conclusion. End with one line of JSON: ${FORM}\n${asked}`,
    },
    { role: 'user', content: `${query}\n\nEvidence:\n${lines.join('\n') || 'none'}` },
  ];
}

function readAnswer(text: string, evidence: readonly Evidence[], who: string): Answer {
  let read: z.infer<typeof answerSchema>;
  try {
    const at = text.lastIndexOf('{');
    const end = text.lastIndexOf('}');
    read = answerSchema.parse(JSON.parse(text.slice(at, end + 1)));
  } catch (error) {
    throw new Error(`${who}: no answer in the form asked for (${messageOf(error).slice(0, 120)})`);
  }
  const cited = read.articles.map((number) => {
    const one = evidence[Number(number.replace(/[[\]\s]/g, '')) - 1];
    if (!one) throw new Error(`${who}: cites evidence ${number}, there are ${evidence.length}`);
    return one;
  });
  return {
    text: text.trim(),
    articles: [
      ...new Set(cited.flatMap(({ source, id, articles }) => (source === 'statute' ? [id] : articles))),
    ],
    choices: [...new Set(read.choices.map((choice) => choice.trim().toUpperCase()))].sort(),
    number: read.number,
  };
}

export interface VotesOptions {
  /** How well an article's text fits the question, ≥ 0; comparable within one question. */
  fit(question: string, id: string): Promise<number>;
  /** Share of all precedents that apply an article, [0, 1]: what nearly every judgment applies decides none. */
  commonness(id: string): number;
}

/** An article beside the first is named when it has at least so much of the first one's votes; so many at most. */
const NAMED_FROM = 0.7;
const MOST_NAMED = 3;
/** Votes of a statute for being found first, and for fitting best. */
const PLACE_VOTE = 0.5;
const FIT_VOTE = 0.5;
/** Votes of a precedent, against those of a statute found in first place that fits best. */
const PRECEDENT_VOTE = 0.5;

/**
 * The stand-in for a model. An article's votes: by the place at which a statute search found it and by its fit to
 * the question; and by the precedents that apply it, less what is common to all. Choices: the option whose
 * characters the evidence holds most of. Number: the median term, in months, of the precedents.
 */
export function votesJudge({ fit, commonness }: VotesOptions): Judge {
  return {
    name: 'votes (stand-in)',
    async answer({ query, answer }, evidence) {
      const votes = new Map<string, number>();
      const add = (id: string, vote: number): void => void votes.set(id, (votes.get(id) ?? 0) + vote);
      const statutes = evidence.filter(({ source }) => source === 'statute');
      const fits = await Promise.all(statutes.map(({ id }) => fit(query, id)));
      const bestFit = Math.max(...fits, 1e-9);
      for (const [i, { id, rank }] of statutes.entries())
        add(id, PLACE_VOTE / (1 + rank) + FIT_VOTE * (fits[i]! / bestFit));
      const precedents = evidence.filter(({ source }) => source === 'precedent');
      for (const { articles } of precedents)
        for (const id of articles)
          add(id, (PRECEDENT_VOTE * (1 - commonness(id)) ** 4) / Math.max(1, precedents.length));
      const ranked = [...votes].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
      const best = ranked[0]?.[1] ?? 0;
      const articles = ranked
        .filter(([, vote]) => vote > 0 && vote >= NAMED_FROM * best)
        .slice(0, MOST_NAMED)
        .map(([id]) => id);
      const choices = answer?.kind === 'choice' ? likeliestChoice(query, evidence) : [];
      const number = answer?.kind === 'number' ? medianMonths(precedents) : null;
      return {
        text: [...articles, ...choices, ...(number === null ? [] : [number])].join(' '),
        articles,
        choices,
        number,
      };
    },
  };
}

function likeliestChoice(query: string, evidence: readonly Evidence[]): string[] {
  const pairs = new Set(evidence.flatMap(({ text }) => pairsOf(text)));
  let best: { letter: string; share: number } | null = null;
  for (const [, letter, option] of query.matchAll(
    /([A-Z])\s*[.．、:：]\s*([^\n]*?)(?=\s*[A-Z]\s*[.．、:：]|\n|$)/g,
  )) {
    const own = pairsOf(option!);
    const share = own.length === 0 ? 0 : own.filter((pair) => pairs.has(pair)).length / own.length;
    if (best === null || share > best.share) best = { letter: letter!, share };
  }
  return best === null ? [] : [best.letter];
}

function pairsOf(text: string): string[] {
  const characters = [...text.replace(/[^\p{L}\p{N}]+/gu, '')];
  return characters.slice(1).map((character, i) => characters[i]! + character);
}

/** Median of the terms that stand in the precedents' texts as `N months`, or 有期徒刑N年M个月 in digits. */
function medianMonths(precedents: readonly Evidence[]): number | null {
  const months = precedents.flatMap(({ text }) => {
    const [, plain] = /(\d+)\s*(?:个月|months)/.exec(text) ?? [];
    return plain === undefined ? [] : [Number(plain)];
  });
  if (months.length === 0) return null;
  months.sort((a, b) => a - b);
  const middle = Math.floor(months.length / 2);
  return months.length % 2 === 1 ? months[middle]! : (months[middle - 1]! + months[middle]!) / 2;
}
