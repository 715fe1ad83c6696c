/** A check against an independent implementation, and the table of many. */
import type { TensorMap } from '../../src/engine/types.ts';

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

/** Largest |a − b|; infinite where the lengths differ or one is no number. */
export function largestGap(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const gap = Math.abs(a[i]! - b[i]!);
    if (!(gap <= most)) most = Number.isNaN(gap) ? Infinity : gap;
  }
  return most;
}

/** The largest gap of a tensor relative to its largest wanted entry, over all tensors wanted. */
export function tensorGap(got: TensorMap, want: TensorMap): number {
  let worst = 0;
  for (const [name, { data }] of want) {
    const scale = data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    worst = Math.max(worst, largestGap(got.get(name)?.data ?? [], data) / Math.max(scale, 1e-12));
  }
  return worst;
}

const figure = (x: number): string =>
  Number.isInteger(x) ? String(x) : Number.isFinite(x) ? x.toExponential(1) : 'no number';

/** Rows of cells of one area: check, largest error, tolerance, result. */
export function rowsOf({ checks }: Area): string[][] {
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
