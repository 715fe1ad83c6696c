/** A case in a few lines: facts, court level, outcome, sentence. By a model, or by extracts, which say so. */
import { z } from 'zod';
import { firstCharacters } from '../../../base/characters.ts';
import { type Assistant, askFor, QUOTED_NOTE, quoted, readObject } from '../ask.ts';
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

/** What the court found, as the facts begin to say it: the outcome, and as much of the facts as there is room for. */
export const extractiveCondenser: Condenser = {
  name: 'extracts (stand-in)',
  async condense(precedent, chars) {
    const found = /经审理查明[：:，,]?/u.exec(precedent.fact);
    const facts = precedent.fact.slice(found ? found.index + found[0].length : 0).replace(/\s+/gu, ' ');
    const outcome = outcomeText(precedent);
    return firstCharacters(`${outcome}。${facts}`, chars);
  },
};

const schema = z.strictObject({
  facts: z.string().trim().min(1),
  court: z.string(),
  outcome: z.string().trim().min(1),
  sentence: z.string().trim().min(1),
});

const SYSTEM = `You condense a Chinese criminal judgment for a lawyer. Write in Chinese, shortly.
Answer with one JSON object: {"facts":"…","court":"court level","outcome":"offence and finding","sentence":"…"}
${QUOTED_NOTE}`;

/** Characters of a judgment that the model reads. */
const READ_CHARS = 6_000;

export function modelCondenser(model: Assistant): Condenser {
  return {
    name: model.chat.name,
    condense: ({ fact, judgment }, chars) =>
      askFor(
        model,
        [
          { role: 'system', content: SYSTEM },
          {
            role: 'user',
            content: `${quoted(firstCharacters(fact, READ_CHARS))}\n\n${quoted(judgment.slice(-READ_CHARS))}`,
          },
        ],
        (text) => {
          const { court, outcome, sentence, facts } = readObject(text, schema, 'no condensed case');
          return firstCharacters(`${court}，${outcome}，${sentence}。${facts}`, chars);
        },
      ),
  };
}
