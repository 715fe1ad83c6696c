/**
 * What a model says of an answer that no label can score: LLM judgment with a schema. A judge that fails rejects: the
 * trajectory then failed, and is never scored 0 (the published code gives silent zeros).
 */
import { z } from 'zod';
import type { Episode } from '../../env/episode.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted, readObject } from '../../env/lawyer/ask.ts';
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
    (text) => {
      const { accuracy, support } = readObject(text, schema, 'no two grades from 1 to 4');
      return { accuracy: share(accuracy), support: share(support) };
    },
  );
}
