/** Checks of the section `assistants`, and of what a Lawyer searches: a helper model that is down ends no run early. */
import { UserError } from '../../base/errors.ts';
import type { Config } from '../../config/schema.ts';
import { loadPrecedents } from '../../env/lawyer/precedents/precedent-set.ts';
import { AssistantFailure } from '../../rollout/assistant-client.ts';
import { type AssistantRole, type AssistantSettings, askUncached } from '../../trainer/assistants.ts';
import type { Passed } from './checklist.ts';

/** The configured helper models, in a fixed order. */
export function configuredAssistants({ assistants }: Config): [AssistantRole, AssistantSettings][] {
  const roles: AssistantRole[] = ['teacher', 'judge', 'critic', 'condenser', 'reranker'];
  return roles.flatMap((role) => {
    const settings = assistants[role];
    return settings ? [[role, settings]] : [];
  });
}

const WITHIN_MS = 30_000;
/** Room for a model that thinks before a word. */
const MAX_TOKENS = 256;

/** Asks the model for a word, past the kept answers. */
export async function checkAssistant(
  role: AssistantRole,
  settings: AssistantSettings,
): Promise<Passed<null>> {
  const deadlineMs = Math.min(WITHIN_MS, settings.deadlineMs);
  const chat = askUncached(role, { ...settings, deadlineMs, retries: 0 });
  try {
    await chat.chat([{ role: 'user', content: 'Answer with one word: ready' }], {
      maxTokens: MAX_TOKENS,
      temperature: 0,
    });
  } catch (error) {
    if (!(error instanceof AssistantFailure)) throw error;
    throw new UserError(error.message, `assistants.${role}`, 'check url, model and key, or leave it out');
  }
  return { value: null, detail: `${chat.name} answers` };
}

export async function checkPrecedents(path: string): Promise<Passed<null>> {
  const { cases } = await loadPrecedents(path);
  const read = cases.filter(({ psi }) => psi !== null).length;
  const detail = `${cases.length} in ${path}, a sentence read of ${read}`;
  const few = read < 0.9 * cases.length;
  return {
    value: null,
    detail,
    ...(few ? { warnings: ['those without one count as half like any other'] } : {}),
  };
}
