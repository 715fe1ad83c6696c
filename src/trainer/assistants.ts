/** Helper models as the configuration names them: with their key, and with their answers kept. */
import { join, resolve } from 'node:path';
import { UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import type { ChatModel } from '../env/lawyer/types.ts';
import { createChatModel } from '../rollout/chat-model.ts';
import { cachedModel } from '../rollout/model-cache.ts';
import { runFolder } from './run-folder.ts';

export type AssistantRole = Exclude<keyof Config['assistants'], 'cache'>;
export type AssistantSettings = NonNullable<Config['assistants'][AssistantRole]>;

/**
 * The model of a role. Its answers are kept in `assistants.cache`, by default in the run folder; a teacher's are
 * not when it samples: its episodes of one question are to differ. UserError for a key that is not set.
 */
export function openAssistant(
  config: Pick<Config, 'assistants' | 'run'>,
  role: AssistantRole,
  settings: AssistantSettings,
  say: (line: string) => void = () => {},
): ChatModel {
  const chat = askUncached(role, settings);
  if (role === 'teacher' && settings.temperature > 0) return chat;
  const { cache } = config.assistants;
  return cachedModel(
    chat,
    cache === undefined ? join(runFolder(config).root, 'assistants') : resolve(cache),
    say,
  );
}

/** The model of a role, asked each time. UserError for a key that is not set. */
export function askUncached(role: AssistantRole, settings: AssistantSettings): ChatModel {
  const { url, model, deadlineMs, retries, concurrency } = settings;
  return createChatModel({ url, model, apiKey: keyOf(role, settings), deadlineMs, retries, concurrency });
}

function keyOf(role: AssistantRole, { apiKeyEnv }: AssistantSettings): string | undefined {
  if (apiKeyEnv === undefined) return undefined;
  const key = process.env[apiKeyEnv];
  if (!key || !/^[\x21-\x7e]+$/.test(key))
    throw new UserError(
      key ? 'holds a character that no key has' : 'is not set',
      `environment variable ${apiKeyEnv}`,
      `set it to the key of assistants.${role}`,
    );
  return key;
}
