import type { Action } from './agents.ts';

export type ActionFailure =
  | 'cut by the length limit'
  | 'not JSON'
  | 'not an object with the one key "action"'
  | 'duplicate key'
  | 'unknown action';

export type ParsedAction = { kind: 'ok'; action: Action } | { kind: 'failed'; reason: ActionFailure };

/** The one accepted form, whitespace around its tokens aside. Prose, fences and further keys fail. */
const ACTION_OBJECT = /^\{\s*"action"\s*:\s*"([^"\\]*)"\s*\}$/;

/**
 * Reads a planner's output, such as `{"action":"rewrite_single"}`. `offered`: the actions that are allowed;
 * any other is unknown.
 */
export function parseAction(text: string, offered: readonly Action[]): ParsedAction {
  const trimmed = text.trim();
  const name = ACTION_OBJECT.exec(trimmed)?.[1];
  if (name === undefined) return { kind: 'failed', reason: diagnose(trimmed) };
  if (!offered.includes(name as Action)) return { kind: 'failed', reason: 'unknown action' };
  return { kind: 'ok', action: name as Action };
}

function diagnose(text: string): ActionFailure {
  try {
    JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  // JSON.parse keeps the last of two equal keys, so a planner could answer twice; that is no answer.
  if (/^\{\s*"action"\s*:\s*"[^"\\]*"\s*,\s*"action"\s*:/.test(text)) return 'duplicate key';
  return 'not an object with the one key "action"';
}
