import { describe, expect, it } from 'vitest';
import { ROLES } from '../../episode.ts';
import { ACTIONS, offeredActions } from '../agents.ts';
import { PACK_NAMES } from '../config.ts';
import { parseAction } from '../parse-action.ts';
import { parseQueries } from '../parse-queries.ts';
import { buildMessages, PACKS, type PromptState } from './build-messages.ts';

const fresh: PromptState = {
  query: '房东不退押金怎么办',
  summary: { round: 0, count: 0, diversity: 0, growth: 0, diminishing: false, agents: [] },
  titles: [],
  offered: ACTIONS,
};
const later: PromptState = {
  ...fresh,
  summary: {
    round: 2,
    count: 9,
    diversity: 1 / 3,
    growth: 0,
    diminishing: true,
    agents: ['rewrite_single', 'rewrite_supplement'],
  },
  titles: ['民法典第七百条', '民法典第七百零一条'],
};

function userText(pack: keyof typeof PACKS, role: (typeof ROLES)[number], state: PromptState): string {
  const messages = buildMessages(PACKS[pack], role, state);
  expect(messages.map((message) => message.role)).toEqual(['system', 'user']);
  return messages[1]!.content;
}
const systemText = (pack: keyof typeof PACKS, role: (typeof ROLES)[number], state = fresh) =>
  buildMessages(PACKS[pack], role, state)[0]!.content;

describe.each(PACK_NAMES)('pack %s', (pack) => {
  it('has a different system prompt for every role', () => {
    expect(PACKS[pack].name).toBe(pack);
    expect(new Set(ROLES.map((role) => systemText(pack, role))).size).toBe(ROLES.length);
  });

  it('puts the question first, so that a question’s prompts share a prefix', () => {
    for (const role of ROLES)
      for (const state of [fresh, later])
        expect(userText(pack, role, state).startsWith(fresh.query)).toBe(true);
  });

  it('leaves no name unfilled', () => {
    for (const role of ROLES)
      for (const state of [fresh, later])
        for (const { content } of buildMessages(PACKS[pack], role, state))
          expect(content).not.toMatch(/\{\w+\}/);
  });

  it('takes a question and titles as text, never as a template', () => {
    const query = '{round} {titles} $& {query}';
    const state = { ...later, query, titles: ['{query}'] };
    for (const role of ROLES) expect(userText(pack, role, state).startsWith(query)).toBe(true);
    const text = userText(pack, 'repair', state);
    expect([query, `${query}\n\n`]).toContain(
      text.slice(0, pack === 'zh-compact' ? query.length : query.length + 2),
    );
    if (pack !== 'zh-compact') expect(text.endsWith('{query}')).toBe(true);
  });
});

describe.each(['zh', 'en'] as const)('instruct pack %s', (pack) => {
  it('shows the planner exactly the actions on offer', () => {
    for (const action of ACTIONS) expect(systemText(pack, 'planner')).toContain(`\n${action}`);
    const offered = offeredActions({ allowOriginal: false });
    expect(systemText(pack, 'planner', { ...fresh, offered })).not.toContain('\noriginal');
  });

  it('has examples that its own parsers accept', () => {
    const example = (role: (typeof ROLES)[number]) => systemText(pack, role).split('\n').at(-1)!;
    const action = /\{.*\}$/.exec(example('planner'))![0];
    expect(parseAction(action, ACTIONS)).toEqual({ kind: 'ok', action: 'rewrite_single' });
    const limits = { maxDecomposed: 4, maxQueryChars: 200 };
    for (const role of ROLES) {
      if (role === 'planner') continue;
      const parsed = parseQueries(role, example(role).split('→')[1]!, limits);
      expect(parsed).toMatchObject({ kind: 'ok' });
      if (parsed.kind === 'ok') expect(parsed.queries).toHaveLength(role === 'decompose' ? 2 : 1);
    }
  });

  it('tells the planner round, count, diversity, growth and what ran', () => {
    const text = userText(pack, 'planner', later);
    for (const part of ['3', '9', '0.3', '0', 'rewrite_single', 'rewrite_supplement'])
      expect(text).toContain(part);
    expect(text).toMatch(/收益递减|diminishing returns/);
    const growing = { ...later, summary: { ...later.summary, growth: 2, diminishing: false } };
    expect(userText(pack, 'planner', growing)).not.toMatch(/收益递减|diminishing returns|\{\w+\}/);
  });

  it('shows candidates to the rewriters that build on them, never to the planner', () => {
    const seen = ROLES.filter((role) => userText(pack, role, later).includes('民法典第七百零一条'));
    expect(seen).toEqual(['rewrite_supplement', 'supportive_law', 'repair']);
    expect(userText(pack, 'repair', fresh)).toBe(fresh.query);
    const many = { ...later, titles: Array.from({ length: 30 }, (_, i) => `T${i}`) };
    expect(userText(pack, 'repair', many).match(/T\d+/g)).toHaveLength(10);
  });
});

describe('pack zh-compact', () => {
  it('is as short as it says', () => {
    expect(systemText('zh-compact', 'planner')).toBe('规划');
    expect(userText('zh-compact', 'planner', fresh)).toBe('房东不退押金怎么办｜轮1');
    expect(userText('zh-compact', 'planner', later)).toBe('房东不退押金怎么办｜轮3池9增0散3前改写补充');
    for (const role of ROLES) {
      expect(systemText('zh-compact', role)).toHaveLength(2);
      if (role !== 'planner') expect(userText('zh-compact', role, later)).toBe('房东不退押金怎么办');
    }
  });

  it('keeps diversity one digit', () => {
    const all = { ...later, summary: { ...later.summary, diversity: 1 } };
    expect(userText('zh-compact', 'planner', all)).toContain('散9前');
  });
});
