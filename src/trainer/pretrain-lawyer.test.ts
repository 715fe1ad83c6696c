import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { parseTurn } from '../env/lawyer/parse-turn.ts';
import { config } from '../env/lawyer/test-support.ts';
import { ACTIONS } from '../env/malr/agents.ts';
import { targetSource } from '../env/malr/demonstration-targets.ts';
import { PACKS } from '../env/malr/prompts/build-messages.ts';
import { mineTerms } from '../env/terms.ts';
import type { Article } from '../env/types.ts';
import { buildTokenizer, writeTokenizer } from '../rollout/build-tokenizer.ts';
import { loadChatTemplate, renderPromptIds } from '../rollout/chat-template.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { pretrainSampler } from './pretrain-text.ts';

const articles: Article[] = [
  ['a1', '盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。'],
  ['a2', '有配偶而重婚的，或者明知他人有配偶而与之结婚的，处二年以下有期徒刑或者拘役。'],
  ['a3', '在道路上驾驶机动车，醉酒驾驶机动车的，处拘役，并处罚金。'],
].map(([id, text]) => ({ id: id!, law: '刑法', title: `刑法 ${id}`, text: text! }));
const facts = ['被告人在商场内趁人不备拿走手机一部，价值五千元，后被抓获。'];
const charges = ['盗窃', '重婚'];
const lawyer = { config: { ...config, prompts: 'zh-compact' as const }, facts, charges };

const folder = temporaryFolder();
const said = '事实罪名法案止要件量刑：:；;。、，';
const files = buildTokenizer([...articles.flatMap(({ title, text }) => [title, text]), ...facts, said], {
  size: 600,
  required: `${Object.values(PACKS['zh-compact'].system).join('')}${said}`,
  maxLength: 512,
});
writeTokenizer(folder, files);
const tokenizer = loadTokenizer(folder);
const template = loadChatTemplate(folder);
const next = pretrainSampler({
  articles,
  source: targetSource(
    new Map(articles.map((article) => [article.id, article])),
    mineTerms(articles, { minCount: 2, minPmi: 0.5, minEntropy: 0.5 }),
  ),
  pack: PACKS['zh-compact'],
  offered: ACTIONS,
  focus: [],
  renderPrompt: (messages) => renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true }),
  encode: tokenizer.encode,
  endId: files.endId,
  seed: 3,
  lawyer,
});
const samples = Array.from({ length: 800 }, () => next());
const textOf = (ids: number[]) => tokenizer.decode(ids, { skipSpecial: true });
const drills = samples.filter(({ ids, lossFrom }) => ids[0] === files.endId && lossFrom > 1);
const turns = samples.filter(({ ids }) => ids[0] !== files.endId);

describe('what a Lawyer is pretrained on', () => {
  it('drills in copying: two samples of five, and the loss is on what stands at their beginning', () => {
    expect(drills.length / samples.length).toBeGreaterThan(0.35);
    expect(drills.length / samples.length).toBeLessThan(0.45);
    let shuffled = 0;
    for (const { ids, lossFrom } of drills) {
      const repeated = ids.slice(lossFrom, -1);
      expect(ids.at(-1)).toBe(files.endId);
      expect(repeated.length).toBeGreaterThanOrEqual(4);
      expect(repeated.length).toBeLessThanOrEqual(32);
      expect(ids.slice(1, 1 + repeated.length)).toEqual(repeated);
      const text = textOf(repeated);
      if (!articles.some((article) => article.text.includes(text))) shuffled++;
    }
    // Where the characters are in no article's order, nothing but looking back tells what comes next.
    expect(shuffled / drills.length).toBeGreaterThan(0.35);
  });

  it('turns that the environment reads; a charge alone is copied from the end of the case', () => {
    let copied = 0;
    for (const { ids, lossFrom } of turns) {
      const answer = textOf(ids.slice(lossFrom));
      const parsed = parseTurn(answer, 'zh-compact', 256);
      expect(parsed.kind, answer).toBe('ok');
      const charge = /罪名:([^。]*)。/.exec(textOf(ids.slice(0, lossFrom)))?.[1];
      expect(charge).toBeDefined();
      if (parsed.kind === 'ok' && parsed.action.kind === 'STATUTE' && parsed.action.query === charge)
        copied++;
    }
    expect(copied / turns.length).toBeGreaterThan(0.25);
    expect(turns.some(({ ids, lossFrom }) => textOf(ids.slice(lossFrom)) === '止')).toBe(true);
  });
});
