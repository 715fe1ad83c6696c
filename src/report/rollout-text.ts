/** A group of rollouts of one question, told in full: calls, rounds, reward terms, advantages. */

import type { AgentCall, Round } from '../env/episode.ts';
import type { Query } from '../env/types.ts';
import type { RolloutResult, Trajectory } from '../rollout/trajectory.ts';
import { formatTable } from './tables.ts';
import { printable } from './text.ts';

/**
 * The text for a terminal. `scored` false: the question has neither gold nor answer, and rewards are not shown. Text from
 * the model and the data is made harmless. Gold articles are marked with `*`.
 */
export function rolloutText(query: Query, results: readonly RolloutResult[], scored: boolean): string {
  const gold = new Set(query.gold);
  const head = [`question ${printable(query.id)}: ${printable(query.query)}`];
  head.push(
    scored
      ? `gold: ${query.gold.map(printable).join(', ') || 'none, a model judges the evidence'}`
      : 'no rewards: neither its gold nor an expected answer is known (--gold id,id)',
  );
  const members = results.map((result, index) =>
    result.kind === 'ok'
      ? memberText(result.trajectory, gold, scored)
      : [`member ${index}: failed, ${printable(result.reason)}`],
  );
  const summary = scored ? [['', ...groupTable(results).split('\n')]] : [];
  return [head, ...members.map((lines) => ['', ...lines]), ...summary].flat().join('\n');
}

function memberText(trajectory: Trajectory, gold: ReadonlySet<string>, scored: boolean): string[] {
  const { member, adapter, calls, rounds, termination, pool } = trajectory;
  const lines = [`member ${member} of ${printable(adapter)}`];
  for (let round = 0; round <= rounds.length; round++) {
    for (const call of calls.filter((one) => one.round === round)) lines.push(...callText(call));
    const done = rounds[round];
    if (done) lines.push(...roundText(round, done, gold));
  }
  lines.push(`  end: ${termination.kind} (${printable(termination.reason)})`);
  lines.push(`  pool of ${pool.length}: ${idList(pool, gold) || 'empty'}`);
  if (trajectory.answer) lines.push(...answerText(trajectory.answer, gold));
  if (scored) lines.push(...ledgerText(trajectory));
  return lines;
}

/** What the judge answered, gold articles marked. */
function answerText(
  { by, text, articles }: NonNullable<Trajectory['answer']>,
  gold: ReadonlySet<string>,
): string[] {
  const named = articles.length > 0 ? `: ${idList(articles, gold)}` : '';
  const body = printable(text)
    .split('\n')
    .map((line) => `      ${line}`);
  return [`  answer by ${printable(by)}${named}`, ...body];
}

function callText({
  role,
  round,
  promptIds,
  outputIds,
  logprobs,
  finishReason,
  text,
  action,
}: AgentCall): string[] {
  const mean = logprobs.reduce((sum, value) => sum + value, 0) / Math.max(1, logprobs.length);
  const facts = [
    `${promptIds.length} + ${outputIds.length} tokens`,
    `${mean.toFixed(2)} nats a token`,
    `finish ${finishReason}`,
    ...(action === null ? [] : [`action ${action}`]),
  ];
  const body = printable(text)
    .split('\n')
    .map((line) => `      ${line}`);
  return [`  round ${round + 1}, ${role}: ${facts.join(', ')}`, ...body];
}

function roundText(index: number, round: Round, gold: ReadonlySet<string>): string[] {
  return [
    `  round ${index + 1} done by ${round.agent}: ${round.newIds.length} new, pool ${round.poolSize}`,
    ...(round.intent ? [`      intent: ${printable(round.intent)}`] : []),
    ...round.queries.map((query) => `      searched: ${printable(query)}`),
    ...round.dropped.map(({ query, reason }) => `      dropped (${printable(reason)}): ${printable(query)}`),
    ...(round.evidence ?? []).map(
      ({ source, id, text }) => `      ${source} ${printable(id)}: ${printable(text)}`,
    ),
    ...(round.newIds.length > 0 ? [`      new: ${idList(round.newIds, gold)}`] : []),
  ];
}

const idList = (ids: readonly string[], gold: ReadonlySet<string>): string =>
  ids.map((id) => (gold.has(id) ? `${printable(id)}*` : printable(id))).join(' ');

function ledgerText({ ledger, advantage, dropReason }: Trajectory): string[] {
  const rows = ledger.terms.map(({ name, raw, weight, value }) => [
    name,
    raw.toFixed(3),
    weight.toFixed(3),
    value.toFixed(3),
  ]);
  const table = formatTable(
    ['term', 'raw', 'weight', 'value'],
    [...rows, ['reward', null, null, ledger.total.toFixed(3)]],
  );
  const credit = advantage === null ? `none (${dropReason ?? 'not computed'})` : advantage.toFixed(3);
  return [...table.split('\n').map((line) => `      ${line}`), `  advantage: ${credit}`];
}

/** One line a member: reward and advantage side by side. */
function groupTable(results: readonly RolloutResult[]): string {
  const rows = results.map((result, index) => {
    if (result.kind === 'failed') return [String(index), null, null, null, null, 'failed'];
    const { rounds, pool, ledger, advantage, termination } = result.trajectory;
    return [
      String(index),
      String(rounds.length),
      String(pool.length),
      ledger.total.toFixed(3),
      advantage?.toFixed(3) ?? null,
      termination.kind,
    ];
  });
  return formatTable(['member', 'rounds', 'pool', 'reward', 'advantage', 'end'], rows);
}
