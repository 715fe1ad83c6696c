/** Aligned tables of plain text. */
import { displayWidth, pad } from './text.ts';

/** null is shown as `-`. */
export type Cell = string | null;

/**
 * A table with a head line, columns two spaces apart: the first column to the left, the others to the
 * right. Widths are those of the terminal, so Chinese text stays aligned. Every row has as many cells as
 * `head`.
 */
export function formatTable(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [head, ...rows.map((row) => row.map((cell) => cell ?? '-'))];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => displayWidth(line[column]!))));
  return lines
    .map((line) =>
      line
        .map((cell, i) => pad(cell, widths[i]!, i === 0 ? 'left' : 'right'))
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
}

const fixed = (digits: number, value: number | undefined): Cell => value?.toFixed(digits) ?? null;

/** The table printed at an evaluation: a row for each policy or baseline, metrics at `k`. */
export function evaluationTable(k: number, rows: readonly { name: string; figures: EvalFigures }[]): string {
  const head = ['held-out', `recall@${k}`, `mrr@${k}`, `ndcg@${k}`, 'invalid', 'rounds', 'pool'];
  return formatTable(
    head,
    rows.map(({ name, figures }) => [
      name,
      fixed(3, figures.recall),
      fixed(3, figures.mrr),
      fixed(3, figures.ndcg),
      figures.invalidRate === undefined ? null : `${(figures.invalidRate * 100).toFixed(1)} %`,
      fixed(2, figures.meanRounds),
      fixed(1, figures.meanPool),
    ]),
  );
}
