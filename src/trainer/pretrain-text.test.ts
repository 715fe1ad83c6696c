import { describe, expect, it } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { ACTIONS } from '../env/malr/agents.ts';
import { targetSource } from '../env/malr/demonstration-targets.ts';
import { parseAction } from '../env/malr/parse-action.ts';
import { parseQueries } from '../env/malr/parse-queries.ts';
import { PACKS } from '../env/malr/prompts/build-messages.ts';
import { mineTerms } from '../env/terms.ts';
import type { Article } from '../env/types.ts';
import { buildTokenizer, writeTokenizer } from '../rollout/build-tokenizer.ts';
import { loadChatTemplate, renderPromptIds } from '../rollout/chat-template.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { pretrainSampler } from './pretrain-text.ts';
import { pseudoQuestion } from './pseudo-question.ts';

const articles: Article[] = [
  {
    id: 'rent',
    law: '民法典',
    title: '民法典一',
    text: '承租人拖欠租金的，出租人可以请求解除租赁合同；承租人应当搬离。',
  },
  {
    id: 'repair',
    law: '民法典',
    title: '民法典二',
    text: '租赁物需要维修，出租人拒绝维修，承租人可以减少租金。',
  },
  {
    id: 'wage',
    law: '劳动合同法',
    title: '劳动合同法一',
    text: '用人单位拖欠劳动报酬，劳动者可以请求支付令。',
  },
  {
    id: 'order',
    law: '民事诉讼法',
    title: '民事诉讼法一',
    text: '请求支付令，提出申请；劳动者与用人单位，出租人与承租人。',
  },
];
const pack = PACKS['zh-compact'];
const folder = temporaryFolder();
const texts = articles.flatMap(({ title, text }) => [title, text]);
const files = buildTokenizer(texts, {
  size: 600,
  required: Object.values(pack.system).join(''),
  maxLength: 256,
});
writeTokenizer(folder, files);
const tokenizer = loadTokenizer(folder);
const template = loadChatTemplate(folder);
const byId = new Map(articles.map((article) => [article.id, article]));
const input = {
  articles,
  source: targetSource(byId, mineTerms(articles, { minCount: 2, minPmi: 0.5, minEntropy: 0.5 })),
  pack,
  offered: ACTIONS,
  focus: [] as string[],
  renderPrompt: (messages: Parameters<typeof renderPromptIds>[2] & object) =>
    renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true }),
  encode: tokenizer.encode,
  endId: files.endId,
  seed: 3,
};
const draw = (n: number, change: Partial<typeof input> = {}) => {
  const next = pretrainSampler({ lawyer: null, ...input, ...change });
  return Array.from({ length: n }, () => next());
};
const textOf = (ids: number[]) => tokenizer.decode(ids, { skipSpecial: true });
const userId = tokenizer.tokenId('<|user|>')!;
const assistantId = tokenizer.tokenId('<|assistant|>')!;
const systemId = tokenizer.tokenId('<|system|>')!;

describe('pretrainSampler', () => {
  const samples = draw(2000);
  const pairs = samples.filter(({ ids }) => ids[0] === systemId);
  const roleOf = ({ ids }: { ids: number[] }) =>
    Object.entries(pack.system).find(([, name]) => name === textOf(ids.slice(1, ids.indexOf(userId))))?.[0];

  it('gives the same samples for the same seed and others for another', () => {
    expect(draw(50)).toEqual(samples.slice(0, 50));
    expect(draw(50, { seed: 4 })).not.toEqual(samples.slice(0, 50));
  });

  it('keeps every sample within 128 tokens, with at least one target after at least one token', () => {
    for (const { ids, lossFrom } of samples) {
      expect(ids.length).toBeLessThanOrEqual(128);
      expect(lossFrom).toBeGreaterThanOrEqual(1);
      expect(lossFrom).toBeLessThan(ids.length);
    }
  });

  it('mixes about 35 % text and all six roles', () => {
    expect(pairs.length / samples.length).toBeGreaterThan(0.61);
    expect(pairs.length / samples.length).toBeLessThan(0.69);
    const share = (role: string) => pairs.filter((pair) => roleOf(pair) === role).length / pairs.length;
    expect(share('rewrite_single')).toBeCloseTo(0.4, 1);
    expect(share('planner')).toBeCloseTo(0.15, 1);
    for (const role of Object.keys(pack.system)) expect(share(role)).toBeGreaterThan(0.04);
  });

  it('takes text from the articles, whole to the end token', () => {
    const whole = articles.map(({ law, text }) => `${law}：${text}`);
    for (const { ids, lossFrom } of samples.filter(({ ids }) => ids[0] === files.endId)) {
      expect(lossFrom).toBe(1);
      expect(ids.at(-1)).toBe(files.endId);
      const piece = textOf(ids).replace(/^(?:民法典|劳动合同法|民事诉讼法)：/, '');
      expect(
        whole.some((text) => text.endsWith(piece)),
        piece,
      ).toBe(true);
    }
  });

  it('asks in the prompts of the environment and answers what the environment accepts', () => {
    for (const pair of pairs) {
      const { ids, lossFrom } = pair;
      expect(ids[lossFrom - 1]).toBe(assistantId);
      expect(ids.at(-1)).toBe(files.endId);
      const answer = textOf(ids.slice(lossFrom));
      const role = roleOf(pair)!;
      if (role === 'planner') {
        expect(parseAction(answer, ACTIONS).kind, answer).toBe('ok');
        const prompt = textOf(ids.slice(ids.indexOf(userId), lossFrom));
        expect(prompt).toMatch(/｜轮(?:1|[234]池\d+增\d+散\d前.+)$/);
        if (prompt.endsWith('｜轮1')) expect(answer).not.toContain('terminate');
      } else {
        const limits = { maxDecomposed: 4, maxQueryChars: 60 };
        expect(parseQueries(role as 'decompose', answer, limits).kind, answer).toBe('ok');
      }
    }
  });

  it('reads the laws in focus more often', () => {
    const wages = (focus: string[]) =>
      draw(1000, { focus }).filter(({ ids }) => textOf(ids).includes('劳动报酬')).length;
    expect(wages(['wage'])).toBeGreaterThan(1.5 * wages([]));
  });
});

describe('pseudoQuestion', () => {
  it('is at most 72 characters, however long the clauses and however many the articles', () => {
    const long: Article = { id: 'x', title: '', text: '甲'.repeat(300) };
    for (let seed = 0; seed < 200; seed++) {
      const random = stream(seed);
      expect(pseudoQuestion([long], random).length).toBeLessThanOrEqual(72);
      expect(pseudoQuestion([long, long], random).length).toBeLessThanOrEqual(72);
      expect(pseudoQuestion(articles.slice(0, 2), random).length).toBeLessThanOrEqual(72);
    }
  });
});
