/** What an import read, kept and left out. */

export interface ImportReport {
  read: number;
  kept: number;
  /** By reason: how many, and the first ids. */
  leftOut: Record<string, { count: number; first: string[] }>;
}

/** So many ids are told of one reason. */
const MOST_TOLD = 5;

/** Notes in the report that the row `id`, or a part of it, is left out. */
export function leaveOut({ leftOut }: ImportReport, reason: string, id: string): void {
  leftOut[reason] ??= { count: 0, first: [] };
  const told = leftOut[reason];
  told.count++;
  if (told.first.length < MOST_TOLD) told.first.push(id);
}

/** `320 read, 318 kept; 2 left out: no article is cited (a, b)`. */
export function importText({ read, kept, leftOut }: ImportReport): string {
  const reasons = Object.entries(leftOut).map(
    ([reason, { count, first }]) =>
      `${count} left out: ${reason} (${first.join(', ')}${count > first.length ? ', …' : ''})`,
  );
  return [`${read} read, ${kept} kept`, ...reasons].join('; ');
}
