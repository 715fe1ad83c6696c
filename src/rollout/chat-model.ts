/** A helper model that writes (teacher, judge, critic, condenser, reranker): one chat completion a call, whole and checked. */
import type { ChatModel } from '../env/lawyer/types.ts';
import { type AssistantOptions, createAssistantClient, invalidAnswer } from './assistant-client.ts';

/** Rejects with an AssistantFailure; an answer that is empty, cut or filtered is one. Nothing is made up in its place. */
export function createChatModel(options: AssistantOptions): ChatModel {
  const { name, call } = createAssistantClient(options);
  return {
    name,
    chat: (messages, { maxTokens, temperature }) =>
      call(async (client, signal) => {
        const answer: unknown = await client.chat.completions.create(
          {
            model: options.model,
            messages: messages.map(({ role, content }) => ({ role, content })),
            max_tokens: maxTokens,
            temperature,
          },
          { signal },
        );
        return readAnswer(answer);
      }),
  };
}

function readAnswer(answer: unknown): string {
  const invalid = (what: string): never => {
    throw invalidAnswer(what);
  };
  const { choices } = (answer ?? {}) as { choices?: unknown };
  const [first] = Array.isArray(choices) ? (choices as unknown[]) : [];
  if (!first || typeof first !== 'object') return invalid('the answer has no choice');
  const { finish_reason: end, message } = first as {
    finish_reason?: unknown;
    message?: { content?: unknown; refusal?: unknown };
  };
  const text = message?.content;
  if (end === 'length') return invalid('the answer was cut at its length limit: raise maxTokens');
  if (end === 'content_filter') return invalid('the answer was filtered');
  if (typeof message?.refusal === 'string' && message.refusal !== '')
    return invalid(`the model refused: ${message.refusal.slice(0, 120)}`);
  if (typeof text !== 'string' || text.trim() === '') return invalid('the answer is empty');
  return text;
}
