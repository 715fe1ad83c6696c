/**
 * The prompt of a turn, from the question and what went before. It depends on nothing else, so what the policy saw
 * can be made again from a trajectory: its calls, its rounds with the evidence as it was shown.
 */
import type { AgentCall, Round } from '../../episode.ts';
import type { Message } from '../../types.ts';
import type { LawyerConfig } from '../config.ts';
import { parseTurn } from '../parse-turn.ts';
import { LAWYER_PROMPTS, type LawyerPrompts } from './packs.ts';

/** What of an earlier call counts: its text, and its action, which is null for a turn that could not be read. */
export type EarlierCall = Pick<AgentCall, 'text' | 'action' | 'finishReason'>;

type Shown = Pick<LawyerConfig, 'prompts' | 'maxTurns' | 'maxQueryChars'>;

/**
 * The messages of the turn after `calls`, whose searches left `rounds`, in order. Instruct packs: a conversation of
 * own turns and their results. The compact pack: one message with the question, cut to head and tail, and the
 * results.
 */
export function buildLawyerMessages(
  query: string,
  calls: readonly EarlierCall[],
  rounds: readonly Round[],
  config: Shown,
): Message[] {
  const pack = LAWYER_PROMPTS[config.prompts];
  let searches = 0;
  const results = calls.map((call, i) => {
    const turn = { turn: String(i + 2), turns: String(config.maxTurns) };
    if (call.action === null) return fill(pack.corrective, { reason: reasonOf(call, config), ...turn });
    return roundText(pack, rounds[searches++]!, turn);
  });
  if (config.prompts === 'zh-compact')
    return [
      { role: 'system', content: pack.system },
      { role: 'user', content: compactText(query, calls, results) },
    ];
  const first = fill(pack.question, { query, turn: '1', turns: String(config.maxTurns) });
  return [
    { role: 'system', content: pack.system },
    { role: 'user', content: first },
    ...calls.flatMap(({ text }, i): Message[] => [
      { role: 'assistant', content: text },
      { role: 'user', content: results[i]! },
    ]),
  ];
}

/** Characters of a long question that the compact pack shows: its beginning, and its end, where the charges stand. */
const HEAD = 72;
const TAIL = 40;

export function cutQuestion(query: string): string {
  const characters = [...query.replace(/\s+/gu, ' ').trim()];
  if (characters.length <= HEAD + TAIL) return characters.join('');
  return `${characters.slice(0, HEAD).join('')}…${characters.slice(-TAIL).join('')}`;
}

/** Each earlier turn as its first character and its result: `｜法盗窃公私财物…`, `｜案…`, `｜误`. */
function compactText(query: string, calls: readonly EarlierCall[], results: readonly string[]): string {
  const turns = calls.map(({ action }, i) => {
    const sign = action === 'STATUTE' ? '法' : action === 'PRECEDENT' ? '案' : '';
    return `｜${sign}${results[i]}`;
  });
  return [cutQuestion(query), ...turns, `｜轮${calls.length + 1}`].join('');
}

function reasonOf({ text, finishReason }: EarlierCall, { prompts, maxQueryChars }: Shown): string {
  if (finishReason !== 'stop') return 'cut by the length limit';
  const parsed = parseTurn(text, prompts, maxQueryChars);
  return parsed.kind === 'failed' ? parsed.reason : 'not allowed here';
}

function roundText(
  pack: LawyerPrompts,
  { evidence = [], dropped }: Round,
  turn: Record<string, string>,
): string {
  const [first] = dropped;
  if (first) return fill(first.reason === REPEATED ? pack.repeated : pack.unknown, turn);
  if (evidence.length === 0) return fill(pack.nothing, turn);
  const separator = pack.found === '{evidence}' ? '；' : '\n';
  const lines = evidence.map(({ source, title, text }, i) =>
    fill(source === 'statute' ? pack.statute : pack.precedent, { number: String(i + 1), title, text }),
  );
  return fill(pack.found, { evidence: lines.join(separator), ...turn });
}

/** Why a round searched nothing. */
export const REPEATED = 'repeated';
export const UNKNOWN_TERMS = 'unknown terms';

/** Replaces each `{name}` that `values` has; one pass, so what is put in is never read again. */
function fill(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}
