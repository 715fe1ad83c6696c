import type { PromptPack } from './pack.ts';

/**
 * For small character-level models trained from scratch: a role is its two-character name, and the pool
 * summary is a dozen characters. Such a model learns the formats from its warm start, not from instructions.
 * The growth digit itself reports diminishing returns.
 */
export const zhCompact: PromptPack = {
  name: 'zh-compact',
  system: {
    planner: '规划',
    rewrite_single: '改写',
    rewrite_supplement: '补充',
    decompose: '分解',
    supportive_law: '配套',
    repair: '修正',
  },
  actionLines: {
    rewrite_single: '',
    rewrite_supplement: '',
    decompose: '',
    supportive_law: '',
    repair: '',
    original: '',
    terminate: '',
  },
  actionNames: {
    rewrite_single: '改写',
    rewrite_supplement: '补充',
    decompose: '分解',
    supportive_law: '配套',
    repair: '修正',
    original: '原问',
    terminate: '结束',
  },
  agentSeparator: '',
  plannerFirst: '{query}｜轮{round}',
  planner: '{query}｜轮{round}池{count}增{growth}散{diversityDigit}前{agents}',
  diminishing: '',
  rewriter: '{query}',
  rewriterWithTitles: '{query}',
  titleRoles: [],
  maxTitles: 0,
};
