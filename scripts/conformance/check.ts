/** A check against an independent implementation, and the table of many. */

export interface Check {
  /** What is compared, and with what. */
  check: string;
  /** The largest difference: in nats for values, relative to a tensor's largest entry for tensors, or a count. */
  error: number;
  tolerance: number;
}

export interface Area {
  title: string;
  checks: Check[];
}

/** NaN is no small error. */
export const passes = ({ error, tolerance }: Check): boolean => error <= tolerance;

const figure = (x: number): string =>
  Number.isInteger(x) ? String(x) : Number.isFinite(x) ? x.toExponential(1) : 'no number';

/** Rows of cells of one area: check, largest error, tolerance, result. */
function rowsOf({ checks }: Area): string[][] {
  return checks.map((check) => [
    check.check,
    figure(check.error),
    figure(check.tolerance),
    passes(check) ? 'ok' : 'FAIL',
  ]);
}

const HEAD = ['check', 'largest error', 'tolerance', ''];

/** For a terminal. */
export function textTable(area: Area): string {
  const rows = [[area.title, ...HEAD.slice(1)], ...rowsOf(area)];
  const widths = HEAD.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows
    .map((row) =>
      row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
    )
    .join('\n');
}

/** As Markdown, with the area's title above. */
export function markdownTable(area: Area): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rows = rowsOf(area).map((row) => line(row.map((cell) => cell.replaceAll('|', '\\|'))));
  return [`## ${area.title}`, '', line(HEAD), line(['---', '--:', '--:', '---']), ...rows, ''].join('\n');
}
