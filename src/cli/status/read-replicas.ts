/** What the policy servers say: who answers, and which adapters of the run each has. */
import { z } from 'zod';
import { messageOf } from '../../base/errors.ts';
import { serverRoot } from '../../rollout/server-root.ts';

export interface ReplicaStatus {
  url: string;
  /** The trainer sends rollouts to it; null: no trainer says. */
  inRotation: boolean | null;
  /** That it does not answer, and why, or that it refuses; null: it lists its adapters. */
  problem: string | null;
  adapters: string[];
}

const WITHIN_MS = 2_000;
const refusal = (status: number): string =>
  `answers ${status}${status === 401 || status === 403 ? ': see the key that apiKeyEnv names' : ''}`;
const cards = z.looseObject({ data: z.array(z.looseObject({ id: z.string() })) });

/** `announced`: the servers in rotation; null when no trainer told. `key` goes to the servers and nowhere else. */
export function readReplicas(
  urls: readonly string[],
  announced: readonly string[] | null,
  run: string,
  key?: string,
): Promise<ReplicaStatus[]> {
  const living = announced?.map(serverRoot);
  return Promise.all(
    [...new Set([...urls, ...(announced ?? [])].map(serverRoot))].map(async (url) => {
      const inRotation = living ? living.includes(url) : null;
      try {
        const answer = await fetch(`${url}/v1/models`, {
          headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
          signal: AbortSignal.timeout(WITHIN_MS),
        });
        if (!answer.ok) return { url, inRotation, problem: refusal(answer.status), adapters: [] };
        const ids = cards.parse(await answer.json()).data.map(({ id }) => id);
        return { url, inRotation, problem: null, adapters: ids.filter((id) => id.startsWith(`${run}-`)) };
      } catch (error) {
        const cause = (error as Error).cause;
        const problem = `does not answer: ${messageOf(cause ?? error)}`;
        return { url, inRotation, problem, adapters: [] };
      }
    }),
  );
}
