/**
 * A made-up question is one to three neighbouring clauses of an article in lay words, with a piece missing
 * and a question's ending: what is missing must be remembered, which is the task of a rewriter.
 */
import type { Random } from '../base/random.ts';
import type { Article } from '../env/types.ts';
import { LAY_WORDS, QUESTION_ENDINGS, QUESTION_OPENINGS } from './lay-words.ts';

const MAX_QUESTION = 72;
const MIN_STATEMENT = 8;
/** Chance of a word that has a lay alternative to be replaced. */
const LAY_SHARE = 0.5;

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
export function splitClauses(text: string): string[] {
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
