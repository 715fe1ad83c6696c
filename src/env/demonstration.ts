/** Demonstrations: what a warm start learns from, whatever the environment. */
import type { Message } from './types.ts';

/** One call of one demonstration episode: the prompt as the policy sees it, and a good answer. */
export interface Demonstration {
  queryId: string;
  role: string;
  round: number;
  messages: Message[];
  text: string;
}
