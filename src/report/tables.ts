/** Aligned tables of plain text. */
import { displayWidth, pad } from './text.ts';

/** null is shown as `-`. */
export type Cell = string | null;

/** Cells such as `12`, `+0.5`, `1.3 %` or `[0.1, 0.4]` stand to the right, words to the left. */
const NUMERIC = /^\[?[-+]?[\d.]/;

/**
 * A table with a head line, columns two spaces apart. Widths are those of the terminal, so Chinese text
 * stays aligned. Every row has as many cells as `head`.
 */
export function formatTable(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [head, ...rows.map((row) => row.map((cell) => cell ?? '-'))];
  const columns = head.map((_, column) => {
    const cells = rows.map((row) => row[column] ?? null).filter((cell) => cell !== null);
    return {
      width: Math.max(...lines.map((line) => displayWidth(line[column]!))),
      align: cells.every((cell) => NUMERIC.test(cell)) && column > 0 ? ('right' as const) : ('left' as const),
    };
  });
  return lines
    .map((line) =>
      line
        .map((cell, i) => pad(cell, columns[i]!.width, columns[i]!.align))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Held-out figures of one policy or baseline; the last three only for a policy. */
export interface EvalFigures {
  recall: number;
  mrr: number;
  ndcg: number;
  invalidRate?: number | undefined;
  meanRounds?: number | undefined;
  meanPool?: number | undefined;
  /** Of a policy whose episodes end with an answer. */
  answerAccuracy?: number | undefined;
  evidenceRecall?: number | undefined;
}

const fixed = (digits: number, value: number | undefined): Cell => value?.toFixed(digits) ?? null;

/** The table printed at an evaluation: a row for each policy or baseline, metrics at `k`. */
export function evaluationTable(k: number, rows: readonly { name: string; figures: EvalFigures }[]): string {
  const head = ['held-out', `recall@${k}`, `mrr@${k}`, `ndcg@${k}`, 'invalid', 'rounds', 'pool'];
  const answered = rows.some(({ figures }) => figures.answerAccuracy !== undefined);
  return formatTable(
    answered ? [...head, 'evidence', 'answers'] : head,
    rows.map(({ name, figures }) => [
      name,
      fixed(3, figures.recall),
      fixed(3, figures.mrr),
      fixed(3, figures.ndcg),
      figures.invalidRate === undefined ? null : `${(figures.invalidRate * 100).toFixed(1)} %`,
      fixed(2, figures.meanRounds),
      fixed(1, figures.meanPool),
      ...(answered ? [fixed(3, figures.evidenceRecall), fixed(3, figures.answerAccuracy)] : []),
    ]),
  );
}
