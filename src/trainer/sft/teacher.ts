/** Who plays the demonstrations, as the configuration says. */
import type { Config } from '../../config/schema.ts';
import { openAssistant } from '../assistants.ts';
import type { Teacher } from './synthesize.ts';

/** How the teacher's calls are sampled and how many run at once; of a stand-in only the last counts. */
export interface TeacherSampling {
  maxTokens: number;
  temperature: number;
  concurrency: number;
}

/** A model's name is given with its endpoint; the stand-in's says what it is. */
export function teacherOf(
  config: Config,
  say: (line: string) => void,
): Teacher & { sampling: TeacherSampling } {
  const { teacher } = config.assistants;
  if (!teacher)
    return {
      name: 'a player that knows the gold (stand-in)',
      chat: null,
      sampling: { maxTokens: 1, temperature: 0, concurrency: 8 },
    };
  const { maxTokens, temperature, concurrency } = teacher;
  const chat = openAssistant(config, 'teacher', teacher, say);
  return { name: chat.name, chat, sampling: { maxTokens, temperature, concurrency } };
}
