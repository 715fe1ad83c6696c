/**
 * What a model says of an answer that no label can score: LLM judgment with a schema. A judge that fails rejects: the
 * trajectory then failed, and is never scored 0 (the published code gives silent zeros).
 */
import { z } from 'zod';
import type { Episode } from '../../env/episode.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted } from '../../env/lawyer/ask.ts';
import { lastObject } from '../../env/lawyer/last-object.ts';
import type { Query } from '../../env/types.ts';

/** Both in [0, 1]: how right the answer is, and how far the evidence supports it. */
export interface Judgment {
  accuracy: number;
  support: number;
}

const grade = z.number().int().min(1).max(4);
const schema = z.strictObject({ accuracy: grade, support: grade });
const share = (points: number): number => (points - 1) / 3;

const SYSTEM = `You grade an answer to a legal question against the expected answer, and how far the evidence supports it.
accuracy: 4 the same in substance, 3 small gaps, 2 partly right, 1 wrong.
support: 4 every claim rests on the evidence, 3 most, 2 few, 1 none.
${QUOTED_NOTE}
Answer with one JSON object: {"accuracy":n,"support":n}`;

/** Rejects when the model fails, or does not give two grades from 1 to 4. */
export async function judgeAnswer(
  critic: Assistant,
  query: Pick<Query, 'query' | 'answer'>,
  { rounds, answer }: Pick<Episode, 'rounds' | 'answer'>,
): Promise<Judgment> {
  const expected = query.answer?.kind === 'text' ? query.answer.text : '';
  const evidence = rounds
    .flatMap((round) => round.evidence ?? [])
    .map(({ title, text }) => `${quoted(title)}: ${quoted(text)}`);
  return askFor(
    critic,
    [
      { role: 'system', content: SYSTEM },
      {
        role: 'user',
        content: `Question: ${quoted(query.query)}\nExpected: ${quoted(expected)}\nAnswer: ${quoted(answer?.text ?? '')}\nEvidence:\n${evidence.join('\n')}`,
      },
    ],
    (text) => readJudgment(text, critic.chat.name),
  );
}

/** The grades that a model's text ends with, whatever thought stands before them. Throws where there are none. */
export function readJudgment(text: string, who: string): Judgment {
  let value: unknown;
  try {
    value = lastObject(text);
  } catch {
    throw new Error(`${who}: no grades in "${text.slice(0, 80)}"`);
  }
  const read = schema.safeParse(value);
  if (!read.success) throw new Error(`${who}: no two grades from 1 to 4 in "${text.slice(0, 80)}"`);
  return { accuracy: share(read.data.accuracy), support: share(read.data.support) };
}
