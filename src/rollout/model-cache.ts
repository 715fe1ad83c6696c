/**
 * Answers of a helper model, kept by content: the same model asked the same with the same options is asked once,
 * also by other processes on the same folder and by later runs; samples that are named (`sample`) are asked for once
 * each. Failures are never kept, nor are texts that who asks
 * cannot read (`check`): a bad moment of a model must not become its answer for ever.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { sha256 } from '../base/hash.ts';
import type { ChatModel, ChatOptions } from '../env/lawyer/types.ts';

/** The question is kept too: who reads the folder sees what was asked. */
const entrySchema = z.strictObject({ model: z.string(), asked: z.unknown(), text: z.string().min(1) });

/** `chat` with its answers kept in `folder`, made when it is absent. A damaged entry is told and asked for again. */
export function cachedModel(chat: ChatModel, folder: string, say: (line: string) => void): ChatModel {
  const underWay = new Map<string, Promise<string>>();

  async function answer(
    path: string,
    messages: Parameters<ChatModel['chat']>[0],
    { check, ...options }: ChatOptions,
  ): Promise<string> {
    const kept = await readEntry(path, say, check);
    if (kept !== null) return kept;
    const text = await chat.chat(messages, options);
    check?.(text);
    const entry = { model: chat.name, asked: { messages, ...options }, text };
    await writeFileAtomic(path, `${JSON.stringify(entry)}\n`);
    return text;
  }

  return {
    name: chat.name,
    chat(messages, options) {
      const { maxTokens, temperature, sample } = options;
      const asking = [chat.name, messages, maxTokens, temperature];
      const key = sha256(JSON.stringify(sample === undefined ? asking : [...asking, sample]));
      const path = join(folder, `${key}.json`);
      const found = underWay.get(path);
      if (found) return found;
      const asked = answer(path, messages, options).finally(() => underWay.delete(path));
      underWay.set(path, asked);
      return asked;
    },
  };
}

/** The kept answer; null where there is none that can be read, or that passes `check`. */
async function readEntry(
  path: string,
  say: (line: string) => void,
  check: ChatOptions['check'],
): Promise<string | null> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    const kept = entrySchema.parse(JSON.parse(text)).text;
    check?.(kept);
    return kept;
  } catch {
    say(`${path} is no kept answer: asked for again`);
    return null;
  }
}
