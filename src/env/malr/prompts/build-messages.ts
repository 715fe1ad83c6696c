import type { Role } from '../../episode.ts';
import type { Message } from '../../types.ts';
import type { Action } from '../agents.ts';
import type { PackName } from '../config.ts';
import type { PoolSummary } from '../pool-summary.ts';
import { en } from './en.ts';
import type { PromptPack } from './pack.ts';
import { zh } from './zh.ts';
import { zhCompact } from './zh-compact.ts';

export const PACKS: Record<PackName, PromptPack> = { zh, en, 'zh-compact': zhCompact };

/** All that a prompt may show: the agents keep nothing between calls. */
export interface PromptState {
  query: string;
  summary: PoolSummary;
  /** Titles of the candidates, in pool order; shown to the rewriters that build on them. */
  titles: readonly string[];
  /** Actions that the planner may choose. */
  offered: readonly Action[];
}

/** One system and one user message for an agent call. The planner sees question and summary only. */
export function buildMessages(pack: PromptPack, role: Role, state: PromptState): Message[] {
  return [
    { role: 'system', content: systemText(pack, role, state) },
    {
      role: 'user',
      content: role === 'planner' ? plannerText(pack, state) : rewriterText(pack, role, state),
    },
  ];
}

function systemText(pack: PromptPack, role: Role, state: PromptState): string {
  const system = pack.system[role];
  if (role !== 'planner') return system;
  return fill(system, { actions: state.offered.map((action) => pack.actionLines[action]).join('\n') });
}

function plannerText(pack: PromptPack, { query, summary }: PromptState): string {
  return fill(summary.round === 0 ? pack.plannerFirst : pack.planner, {
    query,
    round: String(summary.round + 1),
    count: String(summary.count),
    diversity: summary.diversity.toFixed(1),
    diversityDigit: String(Math.min(9, Math.round(summary.diversity * 10))),
    growth: String(summary.growth),
    diminishing: summary.diminishing ? pack.diminishing : '',
    agents: summary.agents.map((action) => pack.actionNames[action]).join(pack.agentSeparator),
  });
}

function rewriterText(pack: PromptPack, role: Role, { query, titles }: PromptState): string {
  const shown = pack.titleRoles.includes(role) ? titles.slice(0, pack.maxTitles) : [];
  if (shown.length === 0) return fill(pack.rewriter, { query });
  return fill(pack.rewriterWithTitles, { query, titles: shown.join('\n') });
}

/** Replaces each `{name}` that `values` has; one pass, so what is put in is never read again. */
function fill(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}
