/** Tools and policies for tests of the episode. */
import { expect } from 'vitest';
import type { Message, Policy } from '../types.ts';
import type { LawyerConfig } from './config.ts';
import { type LawyerTools, runLawyerEpisode } from './episode.ts';
import type { Evidence } from './types.ts';

export const config: LawyerConfig = {
  prompts: 'zh-compact',
  maxTurns: 6,
  maxPolicyTokens: 1000,
  maxQueryChars: 50,
  evidenceChars: 4,
  evidenceItems: 2,
  malformed: 'correct',
  allowEarlyStop: false,
  unknownTermLimit: 0.5,
  poolLimit: 20,
};
export const query = { id: 'q', query: '偷了手机怎么判', gold: ['a1'], date: '2021-01-01', exclude: ['p9'] };
export const statute = (id: string, rank = 0): Evidence => ({
  source: 'statute',
  id,
  rank,
  title: `第${id}条`,
  text: `${id}盗窃公私财物`,
  articles: [id],
});

export const precedent = (articles: string[], text = '', title = ''): Evidence => ({
  source: 'precedent',
  id: 'p',
  rank: 0,
  title,
  text,
  articles,
});

/** Tools that record what is asked of them; a query's digits are the articles found. */
export function toolsOf(change: Partial<LawyerTools> = {}) {
  const asked: unknown[] = [];
  const judged: unknown[] = [];
  const tools: LawyerTools = {
    statutes: {
      unknownTermShare: (text) => (text.includes('胡说') ? 0.9 : 0),
      async search(request) {
        asked.push(request);
        return [...request.query.matchAll(/\d/g)].map(([digit]) => statute(`a${digit}`));
      },
    },
    precedents: {
      unknownTermShare: (text) => (text.includes('瞎编') ? 0.9 : 0),
      async search(request) {
        asked.push(request);
        return [
          {
            source: 'precedent',
            id: 'p1',
            rank: 0,
            title: '盗窃罪',
            text: '判决',
            articles: ['a8', 'a9', 'zz'],
          },
        ];
      },
    },
    judge: {
      name: 'judge',
      async answer(question, evidence) {
        judged.push([question, evidence]);
        return { text: 'A', articles: evidence.map(({ id }) => id), choices: [], number: null };
      },
    },
    hasArticle: (id) => /^a\d$/.test(id),
    ...change,
  };
  return { tools, asked, judged };
}

/** A policy that says these lines; what it saw is kept. */
export function saying(lines: string[], end = '止', finishReason: 'stop' | 'length' = 'stop') {
  const seen: Message[][] = [];
  const policy: Policy = async ({ messages, callIndex, role }) => {
    expect(role).toBe('lawyer');
    seen.push(messages);
    const text = lines[callIndex] ?? end;
    return {
      promptIds: [1],
      outputIds: [...text].map(() => 1),
      logprobs: [...text].map(() => 0),
      temperature: 1,
      finishReason,
      text,
    };
  };
  return { policy, seen };
}
export const run = (lines: string[], change: Partial<LawyerConfig> = {}, tools = toolsOf().tools) =>
  runLawyerEpisode(query, tools, saying(lines).policy, { ...config, ...change });
