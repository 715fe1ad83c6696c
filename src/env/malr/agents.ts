/**
 * The agents of LegalMALR and the planner's vocabulary. One table ties them together: the action that the
 * planner writes, and the role that it runs. A role's name is also the key of its prompt in every pack.
 */
import type { Role } from '../episode.ts';

export type RewriterRole = Exclude<Role, 'planner'>;

/**
 * Action → what it runs. `search-question` searches the question as it stands, without a call of the
 * policy; `end` ends the episode.
 */
export const AGENTS = {
  rewrite_single: 'rewrite_single',
  rewrite_supplement: 'rewrite_supplement',
  decompose: 'decompose',
  supportive_law: 'supportive_law',
  repair: 'repair',
  original: 'search-question',
  terminate: 'end',
} as const satisfies Record<string, RewriterRole | 'search-question' | 'end'>;

export type Action = keyof typeof AGENTS;

/** Every action, in the order in which the planner's prompt lists them. */
export const ACTIONS = Object.keys(AGENTS) as Action[];

/** The actions that a planner may choose under this setting, in the order of `ACTIONS`. */
export function offeredActions(config: { allowOriginal: boolean }): Action[] {
  return ACTIONS.filter((action) => action !== 'original' || config.allowOriginal);
}
