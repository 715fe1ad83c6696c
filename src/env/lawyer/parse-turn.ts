/**
 * Reads a turn of the Lawyer. Instruct packs end a turn with one JSON object, whatever thought stands before it:
 *
 *   {"action":"STATUTE","query":"…","intent":"…"}   {"action":"PRECEDENT","query":"…","charges":["…"]}   {"action":"STOP"}
 *
 * The compact pack has one line: `法：<intent>：<query>`, `案：<query>`, `止`.
 */
import { z } from 'zod';
import { firstCharacters } from '../../base/characters.ts';
import type { LawyerPack } from './config.ts';
import { objectEndingAt } from './last-object.ts';
import type { LawyerAction } from './types.ts';

export type TurnFailure =
  | 'cut by the length limit'
  | 'no JSON object at its end'
  | 'not one of the three actions'
  | 'not one of the three forms'
  | 'an empty query';

export type ParsedTurn = { kind: 'ok'; action: LawyerAction } | { kind: 'failed'; reason: TurnFailure };

const actionSchema = z.discriminatedUnion('action', [
  z.strictObject({ action: z.literal('STATUTE'), query: z.string(), intent: z.string() }),
  z.strictObject({
    action: z.literal('PRECEDENT'),
    query: z.string(),
    charges: z.array(z.string()).default([]),
  }),
  z.strictObject({ action: z.literal('STOP') }),
]);

/** The turn's action; queries and intents are trimmed and cut to `maxQueryChars` code points. */
export function parseTurn(text: string, pack: LawyerPack, maxQueryChars: number): ParsedTurn {
  const parsed = pack === 'zh-compact' ? parseLine(text) : parseObject(text);
  if (parsed.kind === 'failed' || parsed.action.kind === 'STOP') return parsed;
  const { action } = parsed;
  const query = cut(action.query, maxQueryChars);
  if (query === '') return failed('an empty query');
  if (action.kind === 'STATUTE')
    return { kind: 'ok', action: { ...action, query, intent: cut(action.intent, maxQueryChars) } };
  const charges = action.charges
    .map((charge) => cut(charge, maxQueryChars))
    .filter((charge) => charge !== '');
  return { kind: 'ok', action: { ...action, query, charges } };
}

const failed = (reason: TurnFailure): ParsedTurn => ({ kind: 'failed', reason });

/** White space of any kind as one blank. */
const cut = (text: string, most: number): string =>
  firstCharacters(text.replace(/\s+/gu, ' ').trim(), most).trimEnd();

function parseLine(text: string): ParsedTurn {
  const line = text.trim();
  if (line === '止') return { kind: 'ok', action: { kind: 'STOP' } };
  const [, intent, asked] = /^法：([^：\n]{0,8})：([^\n]*)$/u.exec(line) ?? [];
  if (intent !== undefined && asked !== undefined)
    return { kind: 'ok', action: { kind: 'STATUTE', query: asked, intent } };
  const [, similar] = /^案：([^\n]*)$/u.exec(line) ?? [];
  if (similar !== undefined)
    return { kind: 'ok', action: { kind: 'PRECEDENT', query: similar, charges: [] } };
  return failed('not one of the three forms');
}

/** The last object that the text ends with; a code fence around it is overlooked. */
function parseObject(text: string): ParsedTurn {
  const whole = text.trim();
  // No regular expression: it would take minutes where a policy writes nothing but blanks.
  const body = whole.endsWith('```') ? whole.slice(0, -3).trimEnd() : whole;
  if (!body.endsWith('}')) return failed('no JSON object at its end');
  const value = objectEndingAt(body, body.length);
  if (value === undefined) return failed('no JSON object at its end');
  const result = actionSchema.safeParse(value);
  if (!result.success) return failed('not one of the three actions');
  const { action, ...rest } = result.data;
  return { kind: 'ok', action: { kind: action, ...rest } as LawyerAction };
}
