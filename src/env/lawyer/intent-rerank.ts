/**
 * The second stage of a statute search: what was found, reranked for the intent of the search (Legal-R1: an LLM
 * rerank conditioned on the intent). Any chat model, or words that articles of such a kind use.
 */
import { z } from 'zod';
import { firstCharacters } from '../../base/characters.ts';
import type { Article, Message } from '../types.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted, readObject } from './ask.ts';

/** One candidate; `score` of the first stage, comparable within one list. */
export interface Candidate {
  article: Pick<Article, 'id' | 'title' | 'text'>;
  score: number;
}

export interface IntentRequest {
  original: string;
  query: string;
  intent: string;
}

/** The best `keep` of the candidates, best first. Rejects when it cannot say. */
export interface IntentReranker {
  /** A stand-in says that it is one. */
  name: string;
  rerank(request: IntentRequest, candidates: readonly Candidate[], keep: number): Promise<Candidate[]>;
}

/**
 * Words by which an intent is known, and what articles that serve it say; the first that fits counts. Penalties come
 * after what may be said of them (减轻处罚 is an exception), and 刑法 and 刑事 name a field of law, no penalty.
 */
const CUES: readonly { intent: RegExp; text: RegExp }[] = [
  {
    intent: /例外|免除|除外|减轻|从轻|阻却|excepti|exempt|mitigat/i,
    text: /但是|除外|不适用|不是犯罪|不负|免除|减轻|从轻|\b(?:except|unless)/i,
  },
  { intent: /定义|概念|含义|是什么|definition|meaning/i, text: /是指|所称|包括|means|refers to/i },
  {
    intent: /程序|期限|时效|管辖|procedure|time limit|deadline/i,
    text: /期限|日内|以内|时效|申请|受理|within|days/i,
  },
  {
    intent: /量刑|刑期|刑罚|处罚|刑(?![法事])|sentenc|penalt|punish/i,
    text: /处[^。；]*(?:死刑|无期徒刑|有期徒刑|拘役|管制|罚金)|\b(?:imprison|fine[sd]?\b)/i,
  },
  { intent: /赔偿|责任|救济|liabil|compensat|remed/i, text: /赔偿|责任|返还|补偿|liable|compensat/i },
  {
    intent: /要件|构成|成立|element|constitut/i,
    text: /的，|应当|不得|以[^。；]{1,12}为目的|\bwho\b|any person/i,
  },
];

/** What an article that serves the intent gains over one that does not, as a share of the best score. */
const CUE_WEIGHT = 0.15;

/** The stand-in for a model: first-stage scores, and a share of the best for what says what the intent asks for. */
export const lexicalIntentReranker: IntentReranker = {
  name: 'lexical (stand-in)',
  async rerank({ intent }, candidates, keep) {
    const cue = CUES.find((one) => one.intent.test(intent));
    const best = candidates.reduce((most, { score }) => Math.max(most, score), 0);
    const rescored = candidates.map(({ article, score }) => ({
      article,
      score: score + (cue?.text.test(article.text) ? CUE_WEIGHT * best : 0),
    }));
    return rescored.sort(byScoreThenId).slice(0, keep);
  },
};

const byScoreThenId = (a: Candidate, b: Candidate): number =>
  b.score - a.score || (a.article.id < b.article.id ? -1 : a.article.id > b.article.id ? 1 : 0);

/** Numbers of the candidates, the best first. */
const answerSchema = z.strictObject({ best: z.array(z.number().int().min(1)) });

/** Characters of an article that the model reads. */
const READ_CHARS = 300;

/** A reranker that asks a model for the numbers of the best candidates; what it leaves out is dropped. */
export function modelIntentReranker(model: Assistant): IntentReranker {
  return {
    name: model.chat.name,
    async rerank(request, candidates, keep) {
      if (candidates.length === 0) return [];
      const numbers = await askFor(model, promptOf(request, candidates, keep), (text) =>
        readNumbers(text, candidates.length),
      );
      return numbers.slice(0, keep).map((number) => candidates[number - 1]!);
    },
  };
}

function promptOf(
  { original, query, intent }: IntentRequest,
  candidates: readonly Candidate[],
  keep: number,
): Message[] {
  const lines = candidates.map(
    ({ article }, i) =>
      `${i + 1}. ${quoted(article.title)}：${quoted(firstCharacters(article.text, READ_CHARS))}`,
  );
  return [
    {
      role: 'system',
      content:
        `You choose statute articles for a lawyer's search. Read the question, the search and what it is for. ` +
        `Answer with one JSON object, {"best":[numbers]}: at most ${keep} articles that serve this purpose, best first; leave out those that do not. ${QUOTED_NOTE}`,
    },
    {
      role: 'user',
      content: `Question: ${quoted(original)}\nSearch: ${quoted(query)}\nPurpose: ${quoted(intent)}\n\nArticles:\n${lines.join('\n')}`,
    },
  ];
}

/** Numbers of candidates, each once. */
function readNumbers(text: string, candidates: number): number[] {
  const { best: numbers } = readObject(text, answerSchema, 'no list of numbers');
  const stranger = numbers.find((number) => number > candidates);
  if (stranger !== undefined) throw new Error(`there is no candidate ${stranger} of ${candidates}`);
  return [...new Set(numbers)];
}
