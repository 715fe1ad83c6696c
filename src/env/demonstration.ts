/** Demonstrations: what a warm start learns from, whatever the environment and the teacher. */
import type { Episode } from './episode.ts';
import type { Message, Policy } from './types.ts';

/** One call of one demonstration episode: the prompt as the policy sees it, and a good answer. */
export interface Demonstration {
  queryId: string;
  role: string;
  round: number;
  messages: Message[];
  text: string;
}

/** One whole episode that a teacher played; `rollout` counts a question's episodes from 0. */
export interface DemonstratedEpisode {
  queryId: string;
  rollout: number;
  calls: Demonstration[];
  episode: Episode;
}

/**
 * A policy whose words come from `say`, and all that it said, in order. No tokens are sampled, so its episodes
 * have none; every text counts as ended by itself.
 */
export function recordedPolicy(
  queryId: string,
  say: (call: Parameters<Policy>[0]) => string | Promise<string>,
): { policy: Policy; calls: Demonstration[] } {
  const calls: Demonstration[] = [];
  const policy: Policy = async (call) => {
    const text = await say(call);
    const { role, round, messages } = call;
    calls.push({ queryId, role, round, messages, text });
    return { promptIds: [], outputIds: [], logprobs: [], temperature: 1, finishReason: 'stop', text };
  };
  return { policy, calls };
}
