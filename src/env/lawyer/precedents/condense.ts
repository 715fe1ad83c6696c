/** A case in a few lines: facts, court level, outcome, sentence. By a model, or by extracts, which say so. */
import { z } from 'zod';
import { messageOf } from '../../../base/errors.ts';
import type { ChatModel } from '../types.ts';
import type { CourtLevel } from './court-level.ts';
import type { Precedent } from './precedent-set.ts';
import type { Sentence } from './sentence.ts';

export interface Condenser {
  /** A stand-in says that it is one. */
  name: string;
  /** At most `chars` characters. Rejects when it cannot. */
  condense(precedent: Precedent, chars: number): Promise<string>;
}

const LEVELS: Record<CourtLevel, string> = { 1: '基层', 2: '中级', 3: '高级', 4: '最高' };
const KINDS: Record<Sentence['kind'], string> = {
  death: '死刑',
  'death-reprieve': '死刑缓期执行',
  life: '无期徒刑',
  fixed: '有期徒刑',
  detention: '拘役',
  control: '管制',
  fine: '罚金',
  exempt: '免予刑事处罚',
  acquitted: '无罪',
};

/** 基层法院，有期徒刑18个月，缓刑24个月: what was imposed, the term in months. */
export function outcomeText({ level, sentence }: Pick<Precedent, 'level' | 'sentence'>): string {
  const court = level === null ? '' : `${LEVELS[level]}法院，`;
  if (sentence === null) return `${court}刑罚不明`;
  const { kind, months, probationMonths } = sentence;
  const term = months === null ? '' : `${months}个月`;
  return `${court}${KINDS[kind]}${term}${probationMonths === null ? '' : `，缓刑${probationMonths}个月`}`;
}

const cut = (text: string, most: number): string => [...text].slice(0, Math.max(0, most)).join('');

/** What the court found, as the facts begin to say it: the outcome, and as much of the facts as there is room for. */
export const extractiveCondenser: Condenser = {
  name: 'extracts (stand-in)',
  async condense(precedent, chars) {
    const found = /经审理查明[：:，,]?/u.exec(precedent.fact);
    const facts = precedent.fact.slice(found ? found.index + found[0].length : 0).replace(/\s+/gu, ' ');
    const outcome = outcomeText(precedent);
    return cut(`${outcome}。${facts}`, chars);
  },
};

const schema = z.strictObject({
  facts: z.string().trim().min(1),
  court: z.string(),
  outcome: z.string().trim().min(1),
  sentence: z.string().trim().min(1),
});

const SYSTEM = `You condense a Chinese criminal judgment for a lawyer. Write in Chinese, shortly.
Answer with one JSON object: {"facts":"…","court":"court level","outcome":"offence and finding","sentence":"…"}`;

/** Characters of a judgment that the model reads. */
const READ_CHARS = 6_000;

export function modelCondenser(chat: ChatModel): Condenser {
  return {
    name: chat.name,
    async condense(precedent, chars) {
      const { fact, judgment } = precedent;
      const text = await chat.chat(
        [
          { role: 'system', content: SYSTEM },
          { role: 'user', content: `${cut(fact, READ_CHARS)}\n\n${judgment.slice(-READ_CHARS)}` },
        ],
        { maxTokens: 512, temperature: 0 },
      );
      try {
        const read = schema.parse(JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)));
        return cut(`${read.court}，${read.outcome}，${read.sentence}。${read.facts}`, chars);
      } catch (error) {
        throw new Error(`${chat.name}: no condensed case (${messageOf(error).slice(0, 120)})`);
      }
    },
  };
}
