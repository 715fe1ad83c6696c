/** Helper models as the configuration names them: with their key, and with their answers kept. */
import { join, resolve } from 'node:path';
import { UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import type { ChatModel } from '../env/lawyer/types.ts';
import { createChatModel } from '../rollout/chat-model.ts';
import { cachedModel } from '../rollout/model-cache.ts';

export type AssistantRole = Exclude<keyof Config['assistants'], 'cache'>;
export type AssistantSettings = NonNullable<Config['assistants'][AssistantRole]>;

/** The model of a role. Its answers are kept (`keptFolder`). UserError for a key that is not set. */
export function openAssistant(
  config: Pick<Config, 'assistants' | 'run'>,
  role: AssistantRole,
  settings: AssistantSettings,
  say: (line: string) => void,
): ChatModel {
  return cachedModel(askUncached(role, settings), keptFolder(config), say);
}

/** Where answers and vectors are kept: `assistants.cache`, else beside the runs, for all of them. */
export const keptFolder = ({ assistants, run }: Pick<Config, 'assistants' | 'run'>): string =>
  resolve(assistants.cache ?? join(run.dir, '.assistants'));

/** The model of a role, asked each time. UserError for a key that is not set. */
export function askUncached(role: AssistantRole, settings: AssistantSettings): ChatModel {
  const { url, model, deadlineMs, retries, concurrency } = settings;
  const apiKey = assistantKey(`assistants.${role}`, settings.apiKeyEnv);
  return createChatModel({ url, model, apiKey, deadlineMs, retries, concurrency });
}

/** The key in an environment variable; undefined where none is named. UserError when it is not set or no key. */
export function assistantKey(section: string, apiKeyEnv: string | undefined): string | undefined {
  if (apiKeyEnv === undefined) return undefined;
  const key = process.env[apiKeyEnv];
  if (!key || !/^[\x21-\x7e]+$/.test(key))
    throw new UserError(
      key ? 'holds a character that no key has' : 'is not set',
      `environment variable ${apiKeyEnv}`,
      `set it to the key of ${section}`,
    );
  return key;
}
