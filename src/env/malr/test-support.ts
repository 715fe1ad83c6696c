/** For the environment's own tests: the paper's settings, a scripted policy, and tools over a table. */
import { expect } from 'vitest';
import type { Hit, Message, Policy, PolicyOutput, Query, SearchRequest } from '../types.ts';
import type { MalrConfig } from './config.ts';
import type { MalrTools } from './episode.ts';

/** The paper's numbers where it gives them. */
export const malrConfig: MalrConfig = {
  prompts: 'zh-compact',
  maxRounds: 4,
  topK: 30,
  keep: 10,
  poolLimit: 20,
  diminishing: 'report',
  noGrowthRounds: 2,
  allowOriginal: true,
  allowEarlyTerminate: false,
  unknownTermLimit: 0.5,
  maxDecomposed: 4,
  maxQueryChars: 200,
  toleratedBadRewrites: 0,
};

export const query: Query = { id: 'q1', query: '房东不退押金怎么办', gold: ['a1'] };
export const act = (action: string) => `{"action":"${action}"}`;

/** Answers one text after another; a text ending in '…' was cut by the length limit. */
export function scripted(
  texts: string[],
): Policy & { seen: { role: string; round: number; messages: Message[] }[] } {
  const seen: { role: string; round: number; messages: Message[] }[] = [];
  const policy = async (call: { role: string; round: number; callIndex: number; messages: Message[] }) => {
    expect(call.callIndex).toBe(seen.length);
    seen.push(call);
    const text = texts[call.callIndex];
    if (text === undefined) throw new Error(`no answer left for call ${call.callIndex}`);
    const output: PolicyOutput = {
      promptIds: [1, 2],
      outputIds: [call.callIndex, 0],
      logprobs: [-0.5, -0.25],
      temperature: 1,
      finishReason: text.endsWith('…') ? 'length' : 'stop',
      text,
    };
    return output;
  };
  return Object.assign(policy, { seen });
}

/** Finds what the table says for a text; keeps first-come order of ids as the pool's ranking. */
export function toolsOf(
  table: Record<string, string[]>,
  delay: () => Promise<unknown> = async () => {},
): MalrTools & {
  requests: { request: SearchRequest; k: number }[];
  reranks: { original: string; keep: number }[];
} {
  const requests: { request: SearchRequest; k: number }[] = [];
  const reranks: { original: string; keep: number }[] = [];
  return {
    requests,
    reranks,
    retriever: {
      unknownTermShare: (text) => (/^x+$/.test(text) ? 0.51 : text.startsWith('x') ? 0.5 : 0),
      search: async (request, k) => {
        requests.push({ request, k });
        await delay();
        return (table[request.rewrite] ?? []).map((id, i) => ({ id, score: -i })).slice(0, k);
      },
    },
    reranker: {
      rerank: async (original, hits, keep) => {
        reranks.push({ original, keep });
        await delay();
        return hits.slice(0, keep);
      },
    },
    article: (id) => ({ title: `条文${id}`, law: id[0] }),
    rankPool: (lists) => [...new Set(lists.flat().map((hit: Hit) => hit.id))],
  };
}
