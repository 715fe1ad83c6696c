import { describe, expect, it } from 'vitest';
import { ROLES } from '../episode.ts';
import { ACTIONS, AGENTS, offeredActions } from './agents.ts';
import { parseAction } from './parse-action.ts';

describe('the table of agents', () => {
  it('runs every rewriter role by exactly one action', () => {
    const roles = ACTIONS.map((action) => AGENTS[action]);
    for (const role of ROLES.filter((name) => name !== 'planner'))
      expect(roles.filter((name) => name === role)).toHaveLength(1);
    expect(ACTIONS).toHaveLength(ROLES.length - 1 + 2);
  });

  it('offers `original` only where it is allowed', () => {
    expect(offeredActions({ allowOriginal: true })).toEqual(ACTIONS);
    expect(offeredActions({ allowOriginal: false })).toEqual(ACTIONS.filter((name) => name !== 'original'));
  });
});

describe('parseAction', () => {
  it.each(ACTIONS)('reads %s', (action) => {
    expect(parseAction(`{"action":"${action}"}`, ACTIONS)).toEqual({ kind: 'ok', action });
  });

  it('tolerates whitespace around tokens', () => {
    expect(parseAction(' \n{ "action" :\t"repair" }\n', ACTIONS)).toEqual({ kind: 'ok', action: 'repair' });
  });

  it.each([
    ['', 'not JSON'],
    ['repair', 'not JSON'],
    ['I choose {"action":"repair"}', 'not JSON'],
    ['{"action":"repair"} because', 'not JSON'],
    ['```json\n{"action":"repair"}\n```', 'not JSON'],
    ['{"action":"repair"}{"action":"repair"}', 'not JSON'],
    ["{'action':'repair'}", 'not JSON'],
    ['{"action":"repair"', 'not JSON'],
    ['"repair"', 'not an object with the one key "action"'],
    ['[{"action":"repair"}]', 'not an object with the one key "action"'],
    ['{}', 'not an object with the one key "action"'],
    ['{"Action":"repair"}', 'not an object with the one key "action"'],
    ['{"action":["repair"]}', 'not an object with the one key "action"'],
    ['{"action":null}', 'not an object with the one key "action"'],
    ['{"action":"repair","why":"x"}', 'not an object with the one key "action"'],
    ['{"action":"repair","action":"terminate"}', 'duplicate key'],
    ['{"action":"repair","action":"repair"}', 'duplicate key'],
    ['{"action":"search"}', 'unknown action'],
    ['{"action":""}', 'unknown action'],
    ['{"action":"Repair"}', 'unknown action'],
    ['{"action":" repair"}', 'unknown action'],
    ['{"action":"toString"}', 'unknown action'],
    ['{"action":"__proto__"}', 'unknown action'],
    ['{"action":"planner"}', 'unknown action'],
  ])('refuses %j: %s', (text, reason) => {
    expect(parseAction(text, ACTIONS)).toEqual({ kind: 'failed', reason });
  });

  it('refuses an action that is not on offer', () => {
    const offered = offeredActions({ allowOriginal: false });
    expect(parseAction('{"action":"original"}', offered)).toEqual({
      kind: 'failed',
      reason: 'unknown action',
    });
  });
});
