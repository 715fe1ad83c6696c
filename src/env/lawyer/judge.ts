/**
 * The judge: writes the answer from everything that the Lawyer found. Never trained, and exchangeable: a chat
 * model, or a stand-in that counts votes (votes-judge.ts). Both see question and evidence, never the gold.
 */
import { z } from 'zod';
import type { Message, Query } from '../types.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted, readObject } from './ask.ts';
import type { Answer, Evidence, Judge } from './types.ts';

/** Numbers of evidence come as numbers or as text; what else a model adds is overlooked. */
const answerSchema = z.object({
  answer: z.string().trim().min(1),
  articles: z.array(z.union([z.string(), z.number()])).default([]),
  choices: z.array(z.string()).default([]),
  number: z.number().nullable().default(null),
});

/** Evidence is cited by number, so an article that was not found cannot be. Rejects when the model gives no such answer. */
export function modelJudge(model: Assistant): Judge {
  return {
    name: model.chat.name,
    answer: (question, evidence) =>
      askFor(model, promptOf(question, evidence), (text) => readAnswer(text, evidence)),
  };
}

const FORM = '{"answer":"…","articles":["1","3"],"choices":["A"],"number":null}';

function promptOf(
  { query, answer }: Pick<Query, 'query' | 'answer'>,
  evidence: readonly Evidence[],
): Message[] {
  const lines = evidence.map(
    ({ source, title, text }, i) => `[${i + 1}] ${source}, ${quoted(title)}: ${quoted(text)}`,
  );
  const asked = {
    articles: 'articles: the numbers in brackets of the statutes that decide the question, and no others.',
    choice: 'choices: the letters of the right options.',
    number: 'number: the number that is asked for (a prison term in months).',
    text: 'answer: the answer in a few sentences.',
  }[answer?.kind ?? 'articles'];
  return [
    {
      role: 'system',
      content: `You are a judge. Answer from the evidence alone: rule, facts, conclusion. End with one line of JSON: ${FORM}\n${asked}\n${QUOTED_NOTE}`,
    },
    { role: 'user', content: `${query}\n\nEvidence:\n${lines.join('\n') || 'none'}` },
  ];
}

function readAnswer(text: string, evidence: readonly Evidence[]): Answer {
  const read = readObject(text, answerSchema, 'no answer in the form asked for');
  const cited = read.articles.map((number) => {
    const one = evidence[Number(String(number).replace(/[[\]\s]/g, '')) - 1];
    if (!one) throw new Error(`cites evidence ${number}, there are ${evidence.length}`);
    return one;
  });
  return {
    text: text.trim(),
    articles: [
      ...new Set(cited.flatMap(({ source, id, articles }) => (source === 'statute' ? [id] : articles))),
    ],
    choices: [...new Set(read.choices.flatMap(lettersOf))].sort(),
    number: read.number,
  };
}

/** B; A、C; (d) Fraud: the letters that stand alone. ACD: where none does, those of the only word. */
function lettersOf(choice: string): string[] {
  const words = choice.toUpperCase().match(/[A-Z]+/g) ?? [];
  const alone = words.filter(({ length }) => length === 1);
  return alone.length === 0 && words.length === 1 ? [...words[0]!] : alone;
}
