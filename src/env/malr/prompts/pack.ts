/**
 * A prompt pack is data: six system prompts and the templates of the user texts. Names in braces are
 * filled in once, left to right, so that braces in a question or a title stay what they are.
 */
import type { Role } from '../../episode.ts';
import { ACTIONS, type Action } from '../agents.ts';
import type { PackName } from '../config.ts';

/** What the packs for instruct models share: an action is named as the planner writes it. */
export const INSTRUCT = {
  actionNames: Object.fromEntries(ACTIONS.map((action) => [action, action])) as Record<Action, string>,
  titleRoles: ['rewrite_supplement', 'supportive_law', 'repair'],
  maxTitles: 10,
} as const satisfies Partial<PromptPack>;

export interface PromptPack {
  name: PackName;
  /** System prompts. The planner's may hold `{actions}`: the lines of the actions on offer. */
  system: Record<Role, string>;
  /** One line for each action in the planner's system prompt. */
  actionLines: Record<Action, string>;
  /** How an action that has run is named in the pool summary. */
  actionNames: Record<Action, string>;
  /** Between the names in `{agents}`. */
  agentSeparator: string;
  /**
   * The planner's user text before the first round and after it. It begins with `{query}`, so that all
   * planner calls of a question share a prefix. Further names: `{round}` (from 1), `{count}`, `{diversity}`
   * (one decimal), `{diversityDigit}` (tenths, 0 … 9), `{growth}`, `{diminishing}`, `{agents}`.
   */
  plannerFirst: string;
  planner: string;
  /** What `{diminishing}` says when the last round brought fewer than two new articles; empty otherwise. */
  diminishing: string;
  /** A rewriter's user text, `{query}` first. */
  rewriter: string;
  /** The same for the roles in `titleRoles`, once there are candidates: `{titles}`, one a line. */
  rewriterWithTitles: string;
  titleRoles: readonly Role[];
  /** Most titles shown. */
  maxTitles: number;
}
