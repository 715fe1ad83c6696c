/**
 * What a model says of an answer, or of evidence, that no label can score: LLM judgment with a schema. A judge that fails rejects: the
 * trajectory then failed, and is never scored 0 (the published code gives silent zeros).
 */
import { z } from 'zod';
import type { Episode } from '../../env/episode.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted, readObject } from '../../env/lawyer/ask.ts';
import type { Query } from '../../env/types.ts';

/** Both in [0, 1]: how right the answer is, and how far the evidence supports the expected one. */
export interface Judgment {
  accuracy: number;
  support: number;
}

const grade = z.number().int().min(1).max(4);
const schema = z.strictObject({ accuracy: grade, support: grade });
const share = (points: number): number => (points - 1) / 3;

const SYSTEM = `You grade an answer to a legal question against the expected answer, and how far the evidence found supports the expected answer, whatever was answered.
accuracy: 4 the same in substance, 3 small gaps, 2 partly right, 1 wrong.
support: 4 the expected answer follows from the evidence, 3 most of it does, 2 little of it, 1 nothing.
${QUOTED_NOTE}
Answer with one JSON object: {"accuracy":n,"support":n}`;

/** Whether labels do not suffice to score an episode: the answer is a text, or no gold says what the evidence should be. */
export const needsJudgment = ({ gold, answer }: Pick<Query, 'gold' | 'answer'>): boolean =>
  gold.length === 0 || answer?.kind === 'text';

/** Why it does not, as the end of a sentence about a question. */
export const whyJudged = ({ gold }: Pick<Query, 'gold'>): string =>
  gold.length === 0
    ? 'has no gold, and only a model can say whether evidence supports its answer'
    : 'expects an answer of the kind text, which no label can score';

/** The expected answer in words. */
function expectedText(answer: Query['answer']): string {
  switch (answer?.kind) {
    case 'choice':
      return answer.choices.join(', ');
    case 'number':
      return `${answer.value} (right within ${answer.tolerance})`;
    case 'text':
      return answer.text;
    default:
      return '';
  }
}

/** Rejects when the model fails, or does not give two grades from 1 to 4. */
export async function judgeAnswer(
  critic: Assistant,
  query: Pick<Query, 'query' | 'answer'>,
  { rounds, answer }: Pick<Episode, 'rounds' | 'answer'>,
): Promise<Judgment> {
  const evidence = rounds
    .flatMap((round) => round.evidence ?? [])
    .map(({ title, text }) => `${quoted(title)}: ${quoted(text)}`);
  return askFor(
    critic,
    [
      { role: 'system', content: SYSTEM },
      {
        role: 'user',
        content: `Question: ${quoted(query.query)}\nExpected: ${quoted(expectedText(query.answer))}\nAnswer: ${quoted(answer?.text ?? '')}\nEvidence:\n${evidence.join('\n')}`,
      },
    ],
    (text) => {
      const { accuracy, support } = readObject(text, schema, 'no two grades from 1 to 4');
      return { accuracy: share(accuracy), support: share(support) };
    },
  );
}
