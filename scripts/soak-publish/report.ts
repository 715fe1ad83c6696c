/** The soak's figures as a Markdown table. */
import type { FaultCount, Tally } from './tally.ts';

const ROUTES = ['load', 'unload', 'models', 'score', 'health', 'completions', 'process'] as const;

/** A row a fault: requests that it befell, by route, and what became of the publications that it was planned for. */
export function tableOf({ faults }: Tally): string {
  const row = (name: string, { hits, came }: FaultCount): string[] => [
    name,
    ...ROUTES.map((route) => String(hits[route] ?? '')),
    ...[came.everywhere, came.withoutSome, came.keptOld].map(String),
  ];
  const head = ['fault', ...ROUTES, 'on all three', 'without some', 'old kept'];
  const rule = head.map((_, i) => (i === 0 ? '---' : '---:'));
  const rows = Object.entries(faults)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => row(name, count));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
